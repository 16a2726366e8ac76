"""enqueue: let Pending jobs in. Their pods are created only then, so what can't run soon costs nothing yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.objects import JobPhase
from pumice.scheduling.decisions import Enqueue
from pumice.scheduling.too_large import too_large

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def enqueue(engine: Engine) -> None:
    """Admit every Pending job that no plugin keeps out, oldest first."""
    pending = [leaf for leaf in engine.waiting_to_enqueue() if leaf.job.phase is JobPhase.PENDING]
    for leaf in sorted(pending, key=lambda leaf: (leaf.before, leaf.rank)):
        refusal = engine.policy.enqueueable(leaf, engine.now)
        if refusal is not None:
            if too_large(leaf, engine.policy.start_size(leaf.job)) is not None:
                engine.candidates.blocked[leaf] = refusal  # others wait for their turn, this one has to be told
            continue
        leaf.job.phase = JobPhase.INQUEUE
        engine.decisions.append(Enqueue(leaf.job.key))
        engine.refresh(leaf)
