"""enqueue: admit Pending jobs. Their pods are created only then, so jobs that cannot run soon cost nothing yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.oversized_jobs import find_oversize
from pumice.model.specs import JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def enqueue(context: SchedulingContext) -> None:
    """Admit every Pending job that no plugin rejects, oldest first."""
    pending = [leaf for leaf in context.sync.waiting_to_enqueue() if leaf.job.phase is JobPhase.PENDING]
    for leaf in sorted(pending, key=lambda leaf: (leaf.before, leaf.rank)):
        refusal = context.policy.enqueueable(leaf, context.now)
        if refusal is not None:
            if find_oversize(leaf, context.policy.start_size(leaf.job)) is not None:
                context.candidates.blocked_jobs[leaf] = refusal  # other jobs just wait; this one needs a condition
            continue
        leaf.job.phase = JobPhase.INQUEUE
        context.decided.enqueue(leaf.job.key)
        context.sync.refresh_leaf(leaf)
