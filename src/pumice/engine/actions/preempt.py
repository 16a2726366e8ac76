"""preempt: more important work of a queue first. Jobs take from jobs of their own queue, tasks from their own job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.placement.pipelined_tasks import start_pipelined
from pumice.engine.preemption.best_effort import take_places
from pumice.engine.preemption.intra_job import swap_within_jobs

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def preempt(context: SchedulingContext) -> None:
    """Let jobs that find no room take from others of their queue, and from themselves."""
    context.preempts.serve(context)
    take_places(context)
    swap_within_jobs(context)
    start_pipelined(context)
