"""Eviction plan: place every task of a preemptor's unit, and choose the victims that requires.

The plan assigns a node to each task in turn, evicting where necessary. If a limit still rejects the unit, it evicts
more. Once all tasks are placed, it restores the victims that turned out not to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule
from pumice.engine.fairness.preemption_rules.task_rights import running_alike
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.domain_placement import domains_to_free, inside
from pumice.engine.placement.repack import repack_tasks
from pumice.engine.preemption.victim_search import Victims, VictimSearch, still_viable, undo_evictions
from pumice.engine.state.task import Task
from pumice.engine.transaction import Eviction, Transaction
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

MOST_TO_ARRANGE = 32
"""Larger units keep the nodes that the search found task by task; repacking them would cost too much."""


def plan_evictions(
    context: SchedulingContext,
    transaction: Transaction,
    hunt: VictimSearch,
    leaf: JobNode,
    unit: AllocationUnit,
    *,
    victims: bool = True,
) -> bool:
    """Pipeline every task of a unit to a node, evicting the tasks in the way; False if the unit cannot be placed.

    A gang that must stay within one domain of the network gets its victims there: the domains are planned in turn, and
    a plan that fails leaves no trace.
    """
    if unit.topology is None or not unit.topology.hard:
        return _plan(context, transaction, hunt, leaf, unit, victims=victims)
    for domain in domains_to_free(context.nodes, unit.parts, unit.topology, hunt.freeable_slots):
        attempt = Transaction(context, transaction)
        with inside(context.nodes, domain):
            planned = _plan(context, attempt, hunt, leaf, unit, victims=victims)
        if planned:
            attempt.commit()
            return True
        attempt.discard()
    return False


def _plan(
    context: SchedulingContext,
    transaction: Transaction,
    hunt: VictimSearch,
    leaf: JobNode,
    unit: AllocationUnit,
    *,
    victims: bool,
) -> bool:
    stamp = context.next_start_time()
    owed = context.order.is_owed(leaf, unit.ask)
    tasks = unit_tasks(leaf, unit)
    if not all(context.state.task_preempts(task.spec) for task in tasks):
        return False

    def refused() -> bool:
        if not unit.ask:  # a best-effort unit is charged to no share, so limits do not apply
            return False
        return transaction.without_charges(lambda: context.policy.allocatable(leaf, unit) is not None)

    transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    gone: list[Victims] = []
    for task in tasks:
        found = hunt.find_node(task.shape, transaction, victims=victims)
        if found is None:
            return False
        index, here = found
        for together in here:
            hunt.evict_all(together, transaction)
        gone += here
        transaction.pipeline(task, index, stamp, owed)
    if refused():
        lifted = hunt.free_quota(refused, transaction) if victims else None
        if lifted is None:
            return False
        gone += lifted
    if len(gone) > 1 or len(tasks) > 1:  # for one victim and one task the node search has already checked this
        _drop_unneeded_victims(context, transaction, hunt, gone, tasks, refused)
    return evictions_allowed(context, hunt.rule, transaction.evictions)


def evictions_allowed(context: SchedulingContext, judge: PreemptionRule, departures: Iterable[Eviction]) -> bool:
    """Whether the preemption rule accepts all evictions together. Each was legal when made; their sum may not be."""
    jobs = context.tree.jobs
    return all(judge.agrees(jobs[gone.task.job.key], gone.task.shape.ask) for gone in departures if gone.task.job)


def _drop_unneeded_victims(
    context: SchedulingContext,
    transaction: Transaction,
    hunt: VictimSearch,
    gone: list[Victims],
    tasks: list[Task],
    refused: Callable[[], bool],
) -> None:
    """Restore the victims that are not needed now that every task of the unit has a node."""
    coupled = [task for task in tasks if task.shape.coupled]
    overfull = any(_is_overfull(context, i) for i in _nodes_of(context, tasks))
    for victims in reversed(gone):
        undo_evictions(victims, transaction)
        filled = None if overfull else set(_nodes_of(context, victims))
        moved: list[tuple[Task, int]] = []
        needed = (
            any(not still_viable(context, task.job, transaction) for task in victims)
            or refused()
            or not _fits_rearranged(context, transaction, tasks, moved, filled)
            or any(task.node is not None and not context.allows_beside_others(task, task.node) for task in coupled)
        )
        if needed:
            for task, back in reversed(moved):
                transaction.move(task, back)
            if not hunt.evict_all(victims, transaction):
                overfull = True  # they stay where the unit needs their room


def _nodes_of(context: SchedulingContext, tasks: Iterable[Task]) -> list[int]:
    """The nodes that these tasks run on or are pipelined to."""
    index = context.nodes.index
    return list(dict.fromkeys(index[task.node.name] for task in tasks if task.node is not None))


def _is_overfull(context: SchedulingContext, i: int) -> bool:
    """Whether a node will hold more than it has, after all tasks that are leaving have left."""
    node = context.nodes.nodes[i]
    return any(node.future(j) < 0 for j in range(len(node.idle)))


def _fits_rearranged(
    context: SchedulingContext,
    transaction: Transaction,
    tasks: list[Task],
    moved: list[tuple[Task, int]],
    filled: set[int] | None,
) -> bool:
    """Whether the unit fits on the nodes it is pipelined to, after repacking its tasks if necessary.

    ``filled``: the nodes to which tasks were restored; no other can be overfull. None: any.
    """
    index, claimed = context.nodes.index, _nodes_of(context, tasks)
    if not any(_is_overfull(context, i) for i in claimed if filled is None or i in filled):
        return True
    if len(tasks) > MOST_TO_ARRANGE:
        return False
    arrangement = repack_tasks(context, tasks, claimed)
    for task, i in (arrangement or {}).items():
        assert task.node is not None
        if index[task.node.name] != i:
            moved.append((task, index[task.node.name]))
            transaction.move(task, i)
    return arrangement is not None


def lowers_shortfall(transaction: Transaction, capacity: list[int]) -> bool:
    """Whether the jobs are, in sum, less far below their integer targets than before the transaction.

    See docs/fairness.md, section 9.2: the sum.
    """
    held: dict[JobNode, dict[int, int]] = {}  # how much more each job held before
    whole: dict[JobNode, dict[int, int]] = {}  # how much more its integer target was before
    for leaf, items, _, _, _ in transaction.charges:
        _add(held, leaf, items, -1)
    for gone in transaction.evictions:
        _add(held, gone.leaf, gone.task.shape.ask, 1)
        if gone.beneficiary is not None:
            _add(whole, gone.leaf, gone.task.shape.ask, 1)
            _add(whole, gone.beneficiary, gone.task.shape.ask, -1)
    gained = [0] * len(capacity)
    for leaf in (leaf for leaf in {**held, **whole} if leaf.integer_task_counts is None):
        more_held, more_whole = held.get(leaf, {}), whole.get(leaf, {})
        for j in {**more_held, **more_whole}:
            missed = leaf.integer_target[j] + more_whole.get(j, 0) - leaf.held[j] - more_held.get(j, 0)
            gained[j] += max(0, missed) - max(0, leaf.integer_target[j] - leaf.held[j])
    total = sum((Fraction(amount, max(1, capacity[j])) for j, amount in enumerate(gained) if amount), Fraction(0))
    return total + _gained_by_tasks(transaction, capacity) > 0


def _add(sums: dict[JobNode, dict[int, int]], leaf: JobNode, items: Items, sign: int) -> None:
    amounts = sums.setdefault(leaf, {})
    for j, amount in items:
        amounts[j] = amounts.get(j, 0) + sign * amount


def _gained_by_tasks(transaction: Transaction, capacity: list[int]) -> Fraction:
    """How far the shortfall of jobs with unlike tasks shrinks: by tasks started within the target, less evictions."""
    more: dict[tuple[JobNode, Items], int] = {}
    for leaf, items, _, tasks, _ in transaction.charges:
        more[leaf, items] = more.get((leaf, items), 0) + tasks
    for gone in transaction.evictions:
        key = gone.leaf, gone.task.shape.ask
        more[key] = more.get(key, 0) - 1
    gained = Fraction(0)
    for (leaf, items), number in more.items():
        if leaf.integer_task_counts is not None:
            left = leaf.integer_task_counts.get(items, 0) - running_alike(leaf, items)
            size = sum(Fraction(amount, max(1, capacity[j])) for j, amount in items)
            gained += (max(0, left + number) - max(0, left)) * size
    return gained
