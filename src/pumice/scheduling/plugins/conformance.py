"""conformance: what keeps the cluster itself alive is never a victim."""

from __future__ import annotations

from pumice.model.accounts import Task
from pumice.scheduling.plugin import Plugin

SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class ConformancePlugin(Plugin):
    """Spares the pods of the system's namespace and of the critical priority classes."""

    name = "conformance"

    def evictable(self, task: Task) -> bool:
        """Whether the task is nobody's infrastructure."""
        return task.spec.namespace != SYSTEM_NAMESPACE and task.spec.priority_class not in CRITICAL_CLASSES
