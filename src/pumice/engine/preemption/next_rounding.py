"""Whether the next rounding would undo evictions (docs/fairness.md, section 9.2).

Integer targets depend on what is held: an incumbent comes before a newcomer, and a running task keeps smaller ones of
its job waiting. So evictions that they ask for may change them, and let the victims' job take its room back, with the
same task or with another one. That would cost work for nothing, and could go on for ever.

Example: two jobs of a queue run two tasks of 1 cpu each, their gangs, and ask for a third. Room for it is left once.
The job that was served earlier comes first in a tie of the gangs, and then gets the third task as well. But having got
it, it is the one that was served later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.preemption_rules.task_rights import is_owed, spares
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.split_improvement import LEAST, missing
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.transaction import Transaction


def rounding_undoes(context: SchedulingContext, transaction: Transaction) -> bool:
    """Whether a job that loses tasks would be owed one that it did not ask back before, and might take it back."""
    if not context.order.has_targets or not transaction.evictions:
        return False
    lost = _lost_room(transaction)
    owed = {leaf: _owed_asks(leaf) for leaf in lost}
    capacity = context.state.capacity

    def taken_back() -> bool:
        return any(
            _may_take_back(leaf, ask, preemptor, unit, capacity)
            for leaf, room in lost.items()
            for ask in _owed_asks(leaf) - owed[leaf]
            if all(amount <= room.get(j, 0) for j, amount in ask)
            for preemptor, unit, _, _, _ in transaction.charges
        )

    return context.order.with_next_targets(taken_back)


def are_all_alike(jobs: dict[str, JobNode]) -> bool:
    """Whether all tasks of these jobs ask for the same and start alone: whoever has one, the others get no other."""
    first: Items | None = None
    for leaf in jobs.values():
        if leaf.gang > 1:
            return False
        for ask, _ in leaf.demand.pieces:
            if first is None:
                first = ask
            elif ask != first:
                return False
    return True


def _lost_room(transaction: Transaction) -> dict[JobNode, dict[int, int]]:
    """What the evicted tasks of each job ask for together."""
    lost: dict[JobNode, dict[int, int]] = {}
    for gone in transaction.evictions:
        room = lost.setdefault(gone.leaf, {})
        for j, amount in gone.task.shape.ask:
            room[j] = room.get(j, 0) + amount
    return lost


def _owed_asks(leaf: JobNode) -> set[Items]:
    """The requests of a job's tasks, those that wait or were evicted, of which it is owed one more."""
    shapes = {*leaf.job.pending, *leaf.job.evicted}
    return {shape.ask for shape in shapes if shape.ask and is_owed(leaf, shape.ask)}


def _may_take_back(leaf: JobNode, ask: Items, preemptor: JobNode, unit: Items, capacity: list[int]) -> bool:
    """Whether a job may evict what the preemptor has just got, for a task of this request.

    Because the preemptor holds more than its integer target, unless it would go whole; or because that improves the
    split, as for a job that goes whole, and in an exchange, which takes nothing inside a queue.
    """
    if preemptor.job.running > max(1, preemptor.gang):
        if spares(preemptor, unit):
            return True
        if leaf.queue is preemptor.queue:
            return False
    _, ours, theirs = lowest_common_ancestor(leaf, preemptor)
    gain = max((missing(ours, j) - missing(ours, j, -n)) / (capacity[j] or 1) for j, n in ask)
    left = max(missing(theirs, j, n) / (capacity[j] or 1) for j, n in unit)
    return left < gain - LEAST
