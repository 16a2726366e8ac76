"""reclaim: what was lent comes back. Owed jobs take from other queues what these hold beyond their part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.placement.pipelined_tasks import start_pipelined

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def reclaim(context: SchedulingContext) -> None:
    """Let jobs that find no room take from other queues."""
    context.reclaimers.run(context)
    start_pipelined(context)
