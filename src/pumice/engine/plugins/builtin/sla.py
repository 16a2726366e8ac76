"""sla: no job waits longer than was promised.

How long a job may stay Pending is said by its annotation ``sla-waiting-time``, else by the plugin's argument of that
name, else nothing is promised. Inside a queue the job whose time is up first goes first, those without a promise
last; a job whose time is up is enqueued even where a plugin further down in the tiers would keep it out. The promise
ends there: whether it then starts is a matter of its share and of room.
"""

from __future__ import annotations

from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin, PluginError
from pumice.engine.state.job import Job
from pumice.model.duration import DurationError, microseconds_of

WAITING_TIME = "sla-waiting-time"
NEVER = 2**63
"""Later than any deadline."""


class SlaPlugin(Plugin):
    """Deadlines of jobs."""

    name = "sla"
    takes = (Argument(WAITING_TIME, "none", "the longest that jobs without such an annotation stay Pending, as 1h30m"),)
    makes_classes = False  # a promise to be let in is no right to more than a share, nor to what others run

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.longest_wait = _length(arguments)

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """The earliest deadline first."""
        return self._deadline(job)

    def must_enqueue(self, leaf: JobNode, now: int) -> bool:
        """Whether the job has waited as long as it may."""
        return self._deadline(leaf.job) <= now

    def _deadline(self, job: Job) -> int:
        assert job.spec is not None
        wait = job.spec.longest_wait if job.spec.longest_wait is not None else self.longest_wait
        return NEVER if wait is None else job.spec.created + wait


def _length(arguments: Arguments) -> int | None:
    value = arguments.get(WAITING_TIME)
    if value is None:
        return None
    try:
        return microseconds_of(str(value))
    except DurationError as error:
        raise PluginError(WAITING_TIME, str(error)) from None
