"""allocate: serve the share tree until nothing that is left can be placed.

The order names the job whose turn it is. Its unit (its whole gang, or one more task) is tried in a transaction:
either all of it finds a place and is charged to the job's path at once, or nothing happened and the job is passed
over. Others go on: a job that does not fit never stops the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def allocate(context: SchedulingContext) -> None:
    """Serve the owed; keep room for those of them that find none; lend what is left.

    What nobody could use within the limits goes to jobs whose gate gives way (docs/fairness.md, section 8.2), so that
    it does not idle.
    """
    _serve(context, lending=False)
    reserved = context.reservations.update(context) if context.reservations is not None else {}
    context.nodes.reserve(reserved, context.candidates.mark_infeasible)
    _serve(context, lending=True)
    if _call_back(context):
        _serve(context, lending=True, idle=True)
    context.nodes.unreserve()
    context.candidates.capacity_on(reserved)


def _serve(context: SchedulingContext, *, lending: bool, idle: bool = False) -> None:
    """Place units, whoever's turn it is, until there is no candidate (or, before lending, no owed one).

    ``idle``: nobody else can use the room, so gates that give way do.
    """
    order, candidates, policy = context.order, context.candidates, context.policy
    while (lending or not order.lending) and (leaf := order.next_job()) is not None:
        unit: AllocationUnit = leaf.unit
        path = order.explain() if context.tracing else ()
        refusal = policy.allocatable(leaf, unit)
        if refusal is not None and not (idle and policy.gives_way(leaf, unit)):
            candidates.gate_job(leaf, refusal)
            continue
        transaction = Transaction(context)
        short = place_unit(context, transaction, leaf, unit)
        if short is None:
            transaction.commit(path)
            candidates.choose_next_unit(leaf)
        else:
            transaction.discard()
            candidates.mark_failed(unit, short)


def _call_back(context: SchedulingContext) -> bool:
    """Make candidates of those that were refused, would find room and have a gate that gives way; whether any does."""
    candidates, policy = context.candidates, context.policy
    waiting = [(leaf, leaf.unit) for leaf in candidates.gated_jobs if leaf.unit is not None]
    found = [leaf for leaf, unit in waiting if candidates.is_open(unit) and policy.gives_way(leaf, unit)]
    for leaf in found:
        candidates.ungate_job(leaf)
    return bool(found)


def place_unit(
    context: SchedulingContext, transaction: Transaction, leaf: JobNode, unit: AllocationUnit
) -> tuple[TaskShape, int] | None:
    """Find a place for every task of a unit and charge it; else the shape of which only so many tasks found one."""
    nodes, stamp = context.nodes, context.next_start_time()
    owed = context.order.is_owed(leaf, unit.ask)
    tasks = unit_tasks(leaf, unit)
    for number, task in enumerate(tasks):
        shape = task.shape
        index = nodes.best_node(shape)
        if index < 0:
            return shape, sum(1 for placed in tasks[:number] if placed.shape is shape)
        transaction.place(task, index, stamp, owed)
    transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    return None
