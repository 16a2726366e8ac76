"""enqueue: admit Pending jobs. Their pods are created only then, so jobs that cannot run soon cost nothing yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.oversized_jobs import find_oversize
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.model.specs import JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def enqueue(context: SchedulingContext) -> None:
    """Admit every Pending job that no plugin rejects, oldest first."""
    for leaf in _pending(context):
        refusal = context.policy.enqueueable(leaf, context.now)
        if refusal is None:
            _admit(context, leaf)
        elif find_oversize(leaf, context.policy.start_size(leaf.job)) is not None:
            context.candidates.blocked_jobs.block(leaf, refusal)  # other jobs just wait; this one needs a condition


def admit_all(context: SchedulingContext) -> None:
    """Admit every Pending job: ``allocate`` does so where ``enqueue`` is not configured.

    Otherwise the Job controller would wait for ever, because it creates no pods for a Pending PodGroup.
    """
    for leaf in _pending(context):
        _admit(context, leaf)


def _pending(context: SchedulingContext) -> list[JobNode]:
    pending = [leaf for leaf in context.sync.waiting_to_enqueue() if leaf.job.phase is JobPhase.PENDING]
    return sorted(pending, key=lambda leaf: (leaf.before, leaf.rank))


def _admit(context: SchedulingContext, leaf: JobNode) -> None:
    leaf.job.phase = JobPhase.INQUEUE
    context.decided.enqueue(leaf.job.key)
    context.sync.refresh_leaf(leaf)
