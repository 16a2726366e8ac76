"""priority: serve the jobs of a queue by priority, highest first."""

from __future__ import annotations

from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.job import Job


class PriorityPlugin(Plugin):
    """Jobs by the priority of their class or tasks."""

    name = "priority"
    takes = ()
    makes_classes = True

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Highest priority first."""
        return -priority
