"""Places: tasks that ask for nothing but a place may take one from a job of a lower class in their queue.

They never enter the walk of the share tree (backfill serves them), so no share speaks for them; only the class of
their job does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import Unit, missing_to_start
from pumice.engine.decisions import Evict, Sides
from pumice.engine.fairness.preemption_rules.rules import ByKeys, parting
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.preemption.eviction_plan import claim
from pumice.engine.preemption.freeable_capacity import Freeable
from pumice.engine.preemption.preemptible_tasks import Pool
from pumice.engine.preemption.victim_search import Hunt
from pumice.engine.state.task_shapes import Shape
from pumice.engine.transaction import Departure, Transaction
from pumice.model.specs import JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def take_places(context: SchedulingContext) -> None:
    """Let waiting tasks that ask for nothing, and find no place, take one."""
    pool: Pool | None = None
    for leaf in context.sync.waiting_for_backfill():
        if not _may_start(context, leaf):
            continue
        for shape in [shape for shape in leaf.job.pending if shape.best_effort]:
            if context.nodes.best(shape) < 0:  # else backfill has one for it
                pool = pool or Pool(context, context.tree.jobs.values())
                _take_a_place(context, leaf, shape, pool)


def _may_start(context: SchedulingContext, leaf: JobNode) -> bool:
    job = leaf.job
    if (job.phase is JobPhase.PENDING and context.policy.enqueues) or context.policy.job_valid(job) is not None:
        return False
    return missing_to_start(job, context.policy.start_size(job)) <= 1


def _take_a_place(context: SchedulingContext, leaf: JobNode, shape: Shape, pool: Pool) -> None:
    unit = Unit(((shape, 1),))
    judge = ByKeys(context.order, leaf, unit.ask, by_share=False, by_class=context.policy.consent.classes)
    freeable = Freeable(context, pool, pool.below(leaf.queue))
    hunt = Hunt(context, leaf, unit, judge, context.preempts.levels(leaf), pool, lambda _: freeable, across=False)
    transaction = Transaction(context)
    if claim(context, transaction, hunt, leaf, unit):
        transaction.commit((), lambda gone: _explain(context, leaf, gone))
        context.sync.refresh(leaf)
    else:
        transaction.discard()


def _explain(context: SchedulingContext, leaf: JobNode, gone: Departure) -> Evict:
    """The priorities of the two jobs are what decides."""
    level, ours, theirs = parting(leaf, gone.leaf)
    keys = (float(context.state.job_priority(leaf.job)), float(context.state.job_priority(gone.leaf.job)))
    sides = Sides(level.path, ours.path, theirs.path, keys, keys, "priority")
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, leaf.job.key, "preempt", sides)
