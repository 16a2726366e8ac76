"""reclaim: take back what was lent. Owed jobs evict tasks of other queues that hold more than their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.placement.pipelined_tasks import start_pipelined

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def reclaim(context: SchedulingContext) -> None:
    """Evict tasks of other queues for starved jobs."""
    context.reclaimers.run(context)
    start_pipelined(context)
