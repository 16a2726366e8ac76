"""Task rights: what a job may start, and lose, under its integer target (docs/fairness.md, sections 3.2 and 9.2).

Integer target and holdings of equal tasks are compared as amounts. For heterogeneous tasks that would be wrong: a job
runs three tasks of 4 gpu and one of 1 cpu, 5 gpu, and its integer target is four of 4 gpu. It holds more gpu than that,
so it could not start the fourth; without the odd task it would hold less, so that could not be evicted either. So each
task counts by itself: a running task outside the integer target may be evicted, a pending one inside it is owed as soon
as the job without it does not exceed its target. Jobs with a gang are compared by amounts: placement decides which
tasks make up the gang.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import JobNode


@lru_cache(maxsize=1 << 12)
def _shared_counts(counts: tuple[tuple[Items, int], ...]) -> dict[Items, int]:
    """These counts, one object for all jobs that are entitled to the same; never changed."""
    return dict(counts)


def count_integer_tasks(leaf: JobNode) -> dict[Items, int] | None:
    """How many tasks of each kind rounding has handed to a job; None: its tasks are compared by amounts."""
    if len(leaf.demand.pieces) <= 1 or leaf.gang > 1:
        return None
    counts: dict[Items, int] = {}
    for run, units in zip(leaf.line, leaf.taken, strict=True):
        if units and run.tasks:
            counts[run.items] = counts.get(run.items, 0) + units
    return _shared_counts(tuple(counts.items()))


def is_owed(leaf: JobNode, ask: Items) -> bool:
    """Whether one more unit stays within a job's integer target."""
    held, whole = leaf.held, leaf.integer_target
    for j, amount in ask:
        if held[j] + amount > whole[j]:
            return False
    return leaf.integer_task_counts is None or running_alike(leaf, ask) < leaf.integer_task_counts.get(ask, 0)


def spares(leaf: JobNode, items: Items) -> bool:
    """Whether a job would keep its integer target without a task of this request."""
    if leaf.integer_task_counts is not None:
        return running_alike(leaf, items) > leaf.integer_task_counts.get(items, 0)
    held, whole = leaf.held, leaf.integer_target
    for j, amount in items:
        if held[j] - amount < whole[j]:
            return False
    return True


def has_lost_nothing(leaf: JobNode, items: Items) -> bool:
    """Whether a job still has its integer target after it lost a task of this request."""
    if leaf.integer_task_counts is not None:
        return running_alike(leaf, items) >= leaf.integer_task_counts.get(items, 0)
    return all(leaf.held[j] >= leaf.integer_target[j] for j, _ in items)


def holds_more(leaf: JobNode) -> bool:
    """Whether a job runs a task outside its integer target."""
    if leaf.integer_task_counts is not None:
        return any(spares(leaf, shape.ask) for shape in leaf.job.placed if shape.ask)
    whole = leaf.integer_target
    for j, held in enumerate(leaf.held):
        if held > whole[j]:
            return True
    return False


def running_alike(leaf: JobNode, ask: Items) -> int:
    """How many tasks of a job with this request are placed."""
    return sum([number for shape, number in leaf.job.placed.items() if shape.ask == ask])
