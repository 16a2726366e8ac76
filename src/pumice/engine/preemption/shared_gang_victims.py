"""Let several preemptors share one gang victim.

See docs/fairness.md, section 9.8.

A gang is evicted as a whole, and only if that improves the split. A single-task job alone would rarely justify it,
however many such jobs are owed their share. So if a gang blocks one preemptor, the preemptors next in order count as
well: if their combined gain justifies the eviction, the gang is evicted for all of them, in one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.fairness.orders.serving_order import part_of
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.eviction_plan import evictions_allowed, plan_evictions
from pumice.engine.preemption.eviction_reason import EvictionReason, sibling_keys
from pumice.engine.preemption.split_improvement import improves_split
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.preemption.preemptors import Preemptors
    from pumice.engine.preemption.victim_search import VictimSearch


def evict_shared_gang(
    rules: Preemptors, context: SchedulingContext, leaf: JobNode, hunt: VictimSearch, preemptors: dict[JobNode, None]
) -> Transaction | None:
    """Evict a gang that blocks this preemptor, for several at once; the committed transaction, or None."""
    for gang, size in list(hunt.gangs_spared.items()):
        before = sibling_keys(hunt.rule, leaf) if context.tracing else {}
        outer = Transaction(context)
        hunt.allowed_gang = gang
        started, filled = _fill(rules, context, leaf, hunt, preemptors, outer, size)
        if (
            outer.evictions
            and _is_worth_it(context, hunt, outer, gang, filled, size)
            and not rules.would_be_undone(context, outer)
        ):
            outer.commit((), EvictionReason(rules.action, leaf, hunt.rule, before))
            for preemptor in started:
                context.candidates.choose_next_unit(preemptor)
            return outer
        outer.discard()
    hunt.allowed_gang = None
    return None


def _is_worth_it(
    context: SchedulingContext, hunt: VictimSearch, outer: Transaction, gang: JobNode, filled: float, size: float
) -> bool:
    """Whether the preemptors gain enough: by the integer targets, or else by using half of what the gang frees."""
    if hunt.loses_too_much(outer):
        return False
    if not hunt.rule.by_target:
        return filled * 2 >= size
    return improves_split([(preemptor, ask) for preemptor, ask, *_ in outer.charges], [gang], context.state.capacity)


def _fill(
    rules: Preemptors,
    context: SchedulingContext,
    leaf: JobNode,
    hunt: VictimSearch,
    preemptors: dict[JobNode, None],
    outer: Transaction,
    enough: float,
) -> tuple[dict[JobNode, None], float]:
    """Plan for one preemptor after another, with victims only for the first; returns those placed and what they use."""
    order, capacity = context.order, context.state.capacity
    started: dict[JobNode, None] = {}
    filled, first = 0.0, True
    preemptor: JobNode | None = leaf
    full: list[JobNode] = []
    while preemptor is not None and filled < enough:
        inner = Transaction(context, outer)
        lost = {gone.task.job for gone in outer.evictions}
        again = preemptor not in started or (preemptor.unit.size == 1 and not _is_bound_to_domain(preemptor))
        may = preemptor in preemptors and preemptor.job not in lost and again and _waits(context, preemptor)
        judge = hunt.rule if preemptor is leaf else rules.rule_for(context, preemptor)
        fits = (
            may
            and rules.may_preempt(context, preemptor)
            and plan_evictions(context, inner, hunt, preemptor, preemptor.unit, victims=first)
        )
        gone = inner.all_evictions()
        if fits and evictions_allowed(context, judge, gone) and evictions_allowed(context, hunt.rule, gone):
            inner.commit()
            started[preemptor] = None
            filled += part_of(preemptor.unit.ask, capacity)
        else:
            inner.discard()
            if first:
                break
            full.append(preemptor)
            order.set_candidate(preemptor, preemptor.unit.ask, False)
        first = False
        preemptor = order.next_job()
    for other in full:
        order.set_candidate(other, other.unit.ask, True)
    return started, filled


def _is_bound_to_domain(leaf: JobNode) -> bool:
    """Whether the tasks of a job must share a domain: where the next one may go depends on the one before."""
    return any(shape.topology is not None and shape.topology.hard for shape, _ in leaf.unit.parts)


def _waits(context: SchedulingContext, leaf: JobNode) -> bool:
    """Whether a job has another complete unit pending that it is owed."""
    unit, pending = leaf.unit, leaf.job.pending
    return context.order.is_owed(leaf, unit.ask) and all(len(pending.get(s, ())) >= n for s, n in unit.parts)
