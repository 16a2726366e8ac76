"""conformance: system-critical pods are never victims.

That holds in any configuration (docs/fairness.md, section 9.9); the plugin exists because configurations written for
Volcano name it.
"""

from __future__ import annotations

from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.task import Task


class ConformancePlugin(Plugin):
    """Spares the pods of the system's namespace and of the critical priority classes."""

    name = "conformance"
    takes = ()

    def evictable(self, task: Task) -> bool:
        """Whether the task is not system-critical."""
        return not task.is_system_critical
