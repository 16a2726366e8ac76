"""allocate: serve the share tree until nothing that is left can be placed.

The order names the job whose turn it is. Its unit (its whole gang, or one more task) is tried in a transaction:
either all of it finds a place and is charged to the job's path at once, or nothing happened and the job is passed
over. Others go on: a job that does not fit never stops the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.fairness.tree import JobNode
from pumice.model.shape import Shape
from pumice.scheduling.transaction import Transaction
from pumice.scheduling.units import Unit, unit_tasks

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def allocate(engine: Engine) -> None:
    """Serve the owed; keep room for those of them that find none; lend what is left.

    What nobody could use within the limits goes to jobs whose gate gives way (docs/fairness.md, section 8.2), so that
    it does not idle.
    """
    _serve(engine, lending=False)
    reserved = engine.holds.review(engine) if engine.holds is not None else {}
    engine.nodes.reserve(reserved, engine.candidates.shape_full)
    _serve(engine, lending=True)
    if _call_back(engine):
        _serve(engine, lending=True, idle=True)
    engine.nodes.unreserve()
    engine.candidates.room_on(reserved)


def _serve(engine: Engine, *, lending: bool, idle: bool = False) -> None:
    """Place units, whoever's turn it is, until there is no candidate (or, before lending, no owed one).

    ``idle``: nobody else can use the room, so gates that give way do.
    """
    order, candidates, policy = engine.order, engine.candidates, engine.policy
    while (lending or not order.lending) and (leaf := order.pick()) is not None:
        unit: Unit = leaf.unit
        path = order.explain() if engine.tracing else ()
        refusal = policy.allocatable(leaf, unit)
        if refusal is not None and not (idle and policy.gives_way(leaf, unit)):
            candidates.set_aside(leaf, refusal)
            continue
        transaction = Transaction(engine)
        short = place_unit(engine, transaction, leaf, unit)
        if short is None:
            transaction.commit(path)
            candidates.advance(leaf)
            engine.held_changed()
        else:
            transaction.discard()
            candidates.failed(unit, short)


def _call_back(engine: Engine) -> bool:
    """Make candidates of those that were refused, would find room and have a gate that gives way; whether any does."""
    candidates, policy = engine.candidates, engine.policy
    waiting = [(leaf, leaf.unit) for leaf in candidates.aside if leaf.unit is not None]
    found = [leaf for leaf, unit in waiting if candidates.is_open(unit) and policy.gives_way(leaf, unit)]
    for leaf in found:
        candidates.call_back(leaf)
    return bool(found)


def place_unit(engine: Engine, transaction: Transaction, leaf: JobNode, unit: Unit) -> tuple[Shape, int] | None:
    """Find a place for every task of a unit and charge it; else the shape of which only so many tasks found one."""
    nodes, stamp = engine.nodes, engine.next_stamp()
    owed = engine.order.owes(leaf, unit.ask)
    placed: dict[Shape, int] = {}
    for task in unit_tasks(leaf, unit):
        shape = task.shape
        index = nodes.best(shape)
        if index < 0:
            return shape, placed.get(shape, 0)
        transaction.place(task, index, stamp, owed)
        placed[shape] = placed.get(shape, 0) + 1
    transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    return None
