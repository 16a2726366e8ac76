"""Preemption for best-effort tasks: a task without requests may evict one of a lower-priority job in its queue.

Best-effort tasks are not served through the share tree (backfill places them), so no share can justify an eviction for
them. Only the priority class of their job can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, missing_to_start
from pumice.engine.decisions import Evict, Sides
from pumice.engine.fairness.preemption_rules.rules import KeyRule, lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.eviction_plan import plan_evictions
from pumice.engine.preemption.freeable_capacity import FreeableCapacity
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks
from pumice.engine.preemption.victim_search import VictimSearch
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Eviction, Transaction
from pumice.model.specs import JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def preempt_for_best_effort(context: SchedulingContext) -> None:
    """Evict for waiting best-effort tasks that no node can accept."""
    pool: PreemptibleTasks | None = None
    for leaf in context.sync.waiting_for_backfill():
        if not _may_start(context, leaf):
            continue
        for shape in [shape for shape in leaf.job.pending if shape.best_effort]:
            if shape not in leaf.job.pending:  # a task was placed, which decides where the others may go
                break
            if context.nodes.best_node(shape) < 0:  # otherwise backfill places it
                pool = pool or PreemptibleTasks(context, context.tree.jobs.values())
                _take_a_place(context, leaf, shape, pool)


def _may_start(context: SchedulingContext, leaf: JobNode) -> bool:
    job = leaf.job
    if (job.phase is JobPhase.PENDING and context.policy.enqueues) or context.policy.job_valid(job) is not None:
        return False
    return missing_to_start(job, context.policy.start_size(job)) <= 1


def _take_a_place(context: SchedulingContext, leaf: JobNode, shape: TaskShape, pool: PreemptibleTasks) -> None:
    unit = AllocationUnit(((shape, 1),))
    judge = KeyRule(context.order, leaf, unit.ask, by_share=False, by_class=context.policy.consent.classes)
    freeable = FreeableCapacity(context, pool, pool.below(leaf.queue))
    hunt = VictimSearch(
        context, leaf, unit, judge, context.preemptors.search_levels(leaf), pool, lambda _: freeable, across=False
    )
    transaction = Transaction(context)
    if plan_evictions(context, transaction, hunt, leaf, unit):
        transaction.commit((), lambda gone: _explain(context, leaf, gone))
        context.sync.refresh_leaf(leaf)
    else:
        transaction.discard()


def _explain(context: SchedulingContext, leaf: JobNode, gone: Eviction) -> Evict:
    """Build the eviction decision; the priorities of the two jobs are the keys that decided it."""
    level, ours, theirs = lowest_common_ancestor(leaf, gone.leaf)
    keys = (float(context.state.job_priority(leaf.job)), float(context.state.job_priority(gone.leaf.job)))
    sides = Sides(level.path, ours.path, theirs.path, keys, keys, "priority")
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, leaf.job.key, "preempt", sides)
