"""backfill: tasks that ask for nothing but a place take any node that may have them.

They never enter the walk of the share tree. They still count towards their job's minimum, so those of a job that
has not started are placed only together with what allocate has placed for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.objects import JobPhase
from pumice.scheduling.transaction import Transaction
from pumice.scheduling.units import missing_to_start

if TYPE_CHECKING:
    from pumice.fairness.tree import JobNode
    from pumice.scheduling.engine import Engine


def backfill(engine: Engine) -> None:
    """Give every waiting best-effort task a place, job by job."""
    for leaf in engine.waiting_for_backfill():
        if leaf.job.phase is JobPhase.PENDING and engine.policy.enqueues:
            continue
        if engine.policy.job_valid(leaf.job) is None:
            _fill(engine, leaf)


def _fill(engine: Engine, leaf: JobNode) -> None:
    job = leaf.job
    transaction = Transaction(engine)
    stamp = engine.next_stamp()
    shapes = [shape for shape in job.pending if shape.best_effort]
    for shape in sorted(shapes, key=lambda shape: job.pending[shape][-1].order):
        for task in reversed(list(job.pending[shape])):
            index = engine.nodes.best(shape)
            if index < 0:
                break
            transaction.place(task, index, stamp)
            transaction.charge(leaf, shape.ask, stamp, 1, True)
    if missing_to_start(job, engine.policy.start_size(job)) <= 0:
        transaction.commit()
        engine.held_changed()
        engine.refresh(leaf)
    else:
        transaction.discard()
