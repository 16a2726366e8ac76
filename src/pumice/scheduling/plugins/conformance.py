"""conformance: what keeps the cluster itself alive is never a victim."""

from __future__ import annotations

from pumice.model.accounts import Task
from pumice.scheduling.plugin import Plugin

SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def keeps_the_cluster_alive(task: Task) -> bool:
    """Whether a task is part of the system: never a victim, whatever a configuration says (fairness.md 9)."""
    return task.spec.namespace == SYSTEM_NAMESPACE or task.spec.priority_class in CRITICAL_CLASSES


class ConformancePlugin(Plugin):
    """Spares the pods of the system's namespace and of the critical priority classes."""

    name = "conformance"
    takes = ()

    def evictable(self, task: Task) -> bool:
        """Whether the task is nobody's infrastructure."""
        return not keeps_the_cluster_alive(task)
