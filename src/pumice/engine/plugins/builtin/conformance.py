"""conformance: what keeps the cluster itself alive is never a victim.

That holds whatever a configuration says (docs/fairness.md, section 9.9); files made for Volcano name the plugin, and
may go on to.
"""

from __future__ import annotations

from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.task import Task


class ConformancePlugin(Plugin):
    """Spares the pods of the system's namespace and of the critical priority classes."""

    name = "conformance"
    takes = ()

    def evictable(self, task: Task) -> bool:
        """Whether the task is nobody's infrastructure."""
        return not task.is_system_critical
