"""Claims: how every task of a unit gets a place, and who has to go for that.

Task by task a node is found, with victims where it takes some. Then a limit may still be in the way, and more have to
go; and once all have their places, somebody may turn out not to be needed after all, and stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from pumice.fairness.taking import Judge
from pumice.fairness.tree import JobNode
from pumice.model.accounts import Task
from pumice.scheduling.arrange import arrange
from pumice.scheduling.transaction import Departure, Transaction
from pumice.scheduling.units import Unit, unit_tasks
from pumice.scheduling.victims import Hunt, Victims, enough_is_left, spare

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine

MOST_TO_ARRANGE = 32
"""Larger units keep the nodes that were found for them, task by task."""


def claim(
    engine: Engine, transaction: Transaction, hunt: Hunt, leaf: JobNode, unit: Unit, *, victims: bool = True
) -> bool:
    """Give every task of a unit a claim on a node, letting go whoever is in the way; False: there is no way."""
    stamp = engine.next_stamp()
    owed = engine.order.owes(leaf, unit.ask)
    tasks = unit_tasks(leaf, unit)
    if not all(engine.state.task_preempts(task.spec) for task in tasks):
        return False

    def refused() -> bool:
        if not unit.ask:  # a place is nobody's part: limits do not count it
            return False
        return transaction.uncharged(lambda: engine.policy.allocatable(leaf, unit) is not None)

    transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    gone: list[Victims] = []
    for task in tasks:
        found = hunt.find(task.shape, transaction, victims=victims)
        if found is None:
            return False
        index, here = found
        for together in here:
            hunt.let_go(together, transaction)
        gone += here
        transaction.pipeline(task, index, stamp, owed)
    if refused():
        lifted = hunt.lift(refused, transaction) if victims else None
        if lifted is None:
            return False
        gone += lifted
    if len(gone) > 1 or len(tasks) > 1:  # one that goes for one was looked at on its node
        _leave_in_peace(engine, transaction, hunt, gone, tasks, refused)
    return agree(engine, hunt.judge, transaction.evicted)


def agree(engine: Engine, judge: Judge, departures: Iterable[Departure]) -> bool:
    """Whether it is right, all in all, that they went. One after another they were; together they may not be."""
    jobs = engine.tree.jobs
    return all(judge.agrees(jobs[gone.task.job.key], gone.task.shape.ask) for gone in departures if gone.task.job)


def _leave_in_peace(
    engine: Engine,
    transaction: Transaction,
    hunt: Hunt,
    gone: list[Victims],
    tasks: list[Task],
    refused: Callable[[], bool],
) -> None:
    """Spare whoever is not needed after all, now that every task of the unit has its place."""
    coupled = [task for task in tasks if task.shape.coupled]
    for victims in reversed(gone):
        spare(victims, transaction)
        moved: list[tuple[Task, int]] = []
        needed = (
            any(not enough_is_left(engine, task.job, transaction) for task in victims)
            or refused()
            or not _make_do(engine, transaction, tasks, moved)
            or any(task.node is not None and not engine.allows_now(task, task.node) for task in coupled)
        )
        if needed:
            for task, back in reversed(moved):
                transaction.move(task, back)
            hunt.let_go(victims, transaction)


def _make_do(engine: Engine, transaction: Transaction, tasks: list[Task], moved: list[tuple[Task, int]]) -> bool:
    """Whether the unit has room on the nodes it claims, if need be in another arrangement."""
    index, nodes = engine.nodes.index, engine.nodes.nodes
    claimed = list(dict.fromkeys(index[task.node.name] for task in tasks if task.node is not None))
    if not any(nodes[i].future(j) < 0 for i in claimed for j in range(len(nodes[i].idle))):
        return True
    if len(tasks) > MOST_TO_ARRANGE:
        return False
    arrangement = arrange(engine, tasks, claimed)
    for task, i in (arrangement or {}).items():
        assert task.node is not None
        if index[task.node.name] != i:
            moved.append((task, index[task.node.name]))
            transaction.move(task, i)
    return arrangement is not None


def lowers_the_shortfall(transaction: Transaction, capacity: list[int]) -> bool:
    """Whether jobs are less far below their whole targets, all in all, than before.

    See docs/fairness.md, section 9.2: the sum.
    """
    held: dict[JobNode, Counter[int]] = {}  # what each job held more before
    whole: dict[JobNode, Counter[int]] = {}  # and was entitled to more
    for leaf, items, _, _, _ in transaction.charges:
        held.setdefault(leaf, Counter()).subtract(dict(items))
    for gone in transaction.evicted:
        held.setdefault(gone.leaf, Counter()).update(dict(gone.task.shape.ask))
        if gone.heir is not None:
            whole.setdefault(gone.leaf, Counter()).update(dict(gone.task.shape.ask))
            whole.setdefault(gone.heir, Counter()).subtract(dict(gone.task.shape.ask))
    nothing: Counter[int] = Counter()
    gained = Fraction(0)
    for leaf in {**held, **whole}:
        more_held, more_whole = held.get(leaf, nothing), whole.get(leaf, nothing)
        for j, total in enumerate(capacity):
            before = max(0, leaf.whole[j] + more_whole[j] - leaf.held[j] - more_held[j])
            gained += Fraction(before - max(0, leaf.whole[j] - leaf.held[j]), max(1, total))
    return gained > 0
