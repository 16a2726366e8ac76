"""sla: enqueue a job at the latest when its maximum waiting time is over.

The job's annotation ``sla-waiting-time`` sets how long it may stay Pending, else the plugin's argument of that name;
otherwise it has no deadline. Inside a queue the job with the earliest deadline goes first, those without one last; a
job past its deadline is enqueued even if a plugin further down in the tiers would reject it. The promise ends there:
whether it then starts depends on its share and on free capacity.
"""

from __future__ import annotations

from pumice.engine.fairness.share_tree.share_node import JobNode
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
    makes_classes = False  # a promise to be enqueued is no entitlement to more than a share, nor to preempt

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.longest_wait = _length(arguments)

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """The earliest deadline first."""
        return self._deadline(job)

    def must_enqueue(self, leaf: JobNode, now: int) -> bool:
        """Whether the job has waited until its deadline."""
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
