"""priority: more important jobs of a queue first."""

from __future__ import annotations

from pumice.model.accounts import Job
from pumice.scheduling.plugin import Plugin


class PriorityPlugin(Plugin):
    """Jobs by the priority of their class or tasks."""

    name = "priority"
    takes = ()
    makes_classes = True

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Highest priority first."""
        return -priority
