"""allocate: serve the share tree until none of the remaining units can be placed.

The serving order names the next job. Its unit (its whole gang, or one more task) is tried in a transaction: either all
of it is placed and charged to the job's path at once, or nothing changes and the job is skipped. A job that does not
fit never blocks the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.actions.enqueue import admit_all
from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def allocate(context: SchedulingContext) -> None:
    """Serve the owed jobs, reserve capacity for those that do not fit, then lend the rest.

    Capacity that no job could use within the limits goes to jobs whose gate gives way (docs/fairness.md, section 8.2),
    so that it does not stay idle.
    """
    if not context.policy.enqueues:
        admit_all(context)
    _serve(context, lending=False)
    reserved = context.reservations.update(context) if context.reservations is not None else {}
    context.nodes.reserve(reserved, context.candidates.mark_infeasible)
    _serve(context, lending=True)
    if _call_back(context):
        _serve(context, lending=True, idle=True)
    context.nodes.unreserve()
    context.candidates.capacity_on(reserved)


def _serve(context: SchedulingContext, *, lending: bool, idle: bool = False) -> None:
    """Place units in serving order until there is no candidate left (or, before lending, no owed one).

    ``idle``: no other job can use the capacity, so gates that may give way do.
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
    """Make candidates of gated jobs that may be placeable and whose gate gives way; whether there are any."""
    candidates, policy = context.candidates, context.policy
    waiting = [(leaf, leaf.unit) for leaf in candidates.gated_jobs if leaf.unit is not None]
    found = [leaf for leaf, unit in waiting if candidates.is_open(unit) and policy.gives_way(leaf, unit)]
    for leaf in found:
        candidates.ungate_job(leaf)
    return bool(found)


def place_unit(
    context: SchedulingContext, transaction: Transaction, leaf: JobNode, unit: AllocationUnit
) -> tuple[TaskShape, int] | None:
    """Place and charge every task of a unit; otherwise return the shape that ran out and how many of it were placed."""
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
