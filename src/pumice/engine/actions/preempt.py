"""preempt: run more important work of a queue first. Jobs preempt jobs of their queue, tasks those of their own job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.placement.pipelined_tasks import start_pipelined
from pumice.engine.preemption.best_effort import preempt_for_best_effort
from pumice.engine.preemption.intra_job import preempt_within_jobs

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def preempt(context: SchedulingContext) -> None:
    """Evict for starved jobs, within their queue and within the job itself."""
    context.preemptors.run(context)
    preempt_for_best_effort(context)
    preempt_within_jobs(context)
    start_pipelined(context)
