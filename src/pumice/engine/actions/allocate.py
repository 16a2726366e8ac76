"""allocate: serve the share tree until none of the remaining units can be placed.

The serving order names the next job. Its unit (its whole gang, or one more task) is tried in a transaction: either all
of it is placed and charged to the job's path at once, or nothing changes and the job is skipped. A job that does not
fit never blocks the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.actions.enqueue import admit_all
from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.domain_placement import domains_with_room, inside, roomiest_domain
from pumice.engine.placement.pipelined_tasks import must_wait
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


Short = tuple[TaskShape, int]
"""A shape of which not all tasks could be placed, and how many could."""


def allocate(context: SchedulingContext) -> None:
    """Serve the owed jobs, reserve capacity for those that do not fit, then lend the rest.

    Capacity that no job could use within the limits goes to jobs whose gate gives way (docs/fairness.md, sections 5.2
    and 8.2), so that it does not stay idle.
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
    candidates = context.candidates
    context.tree.awaited = frozenset()
    found = _giving_way(context, candidates.gated_jobs)
    if found:
        context.tree.awaited = _awaited(context)
        found = _giving_way(context, found)
    for leaf in found:
        candidates.ungate_job(leaf)
    return bool(found)


def _giving_way(context: SchedulingContext, leaves: Iterable[JobNode]) -> list[JobNode]:
    """Of these jobs, those whose unit may be placeable and that no gate rejects which does not give way."""
    waiting = [(leaf, leaf.unit) for leaf in leaves if leaf.unit is not None]
    return [leaf for leaf, unit in waiting if context.candidates.is_open(unit) and context.policy.gives_way(leaf, unit)]


def _awaited(context: SchedulingContext) -> frozenset[int]:
    """The resources of the units that no gate rejects and that find no room."""
    found: set[int] = set()
    candidates, policy = context.candidates, context.policy
    for unit in candidates.units:
        if candidates.is_open(unit) or all(j in found for j, _ in unit.ask):
            continue
        heads = {(leaf.queue, leaf.user): leaf for leaf in unit.first_jobs() if candidates.fifo_queues.is_head(leaf)}
        if any(policy.allocatable(leaf, unit) is None for leaf in heads.values()):
            found.update(j for j, _ in unit.ask)
    return frozenset(found)


def place_unit(
    context: SchedulingContext, transaction: Transaction, leaf: JobNode, unit: AllocationUnit
) -> Short | None:
    """Place and charge every task of a unit; otherwise return the shape that ran out and how many of it were placed."""
    stamp = context.next_start_time()
    owed = context.order.is_owed(leaf, unit.ask)
    tasks = unit_tasks(leaf, unit)
    if unit.topology is None:
        short = _place_tasks(context, transaction, tasks, stamp, owed)
    else:
        short = _place_in_domain(context, transaction, unit, tasks, stamp, owed)
    if short is None:
        transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    return short


def _place_in_domain(
    context: SchedulingContext,
    transaction: Transaction,
    unit: AllocationUnit,
    tasks: list[Task],
    stamp: int,
    owed: bool,
) -> Short | None:
    """Place a gang within one domain of the network; in mode soft, anywhere if no domain has room for all of it."""
    assert unit.topology is not None
    most, short = -1, None
    for domain in domains_with_room(context.nodes, unit.parts, unit.topology):
        attempt = Transaction(context, transaction)
        with inside(context.nodes, domain):
            failed = _place_tasks(context, attempt, tasks, stamp, owed)
        if failed is None:
            attempt.commit()
            return None
        if attempt.placements > most:
            most, short = attempt.placements, failed
        attempt.discard()
    if not unit.topology.hard:
        return _place_tasks(context, transaction, tasks, stamp, owed)
    return short or _first_short(context, unit)


def _first_short(context: SchedulingContext, unit: AllocationUnit) -> Short:
    """The shape of which the domain with most room could not take all tasks, and how many it could take."""
    assert unit.topology is not None
    domain = roomiest_domain(context.nodes, unit.parts, unit.topology)
    for shape, count in unit.parts:
        takes = int(context.nodes.idle_slots(shape)[domain.nodes].sum()) if domain is not None else 0
        if takes < count:
            return shape, takes
    return unit.parts[-1][0], unit.parts[-1][1] - 1


def _place_tasks(
    context: SchedulingContext, transaction: Transaction, tasks: list[Task], stamp: int, owed: bool
) -> Short | None:
    nodes, job = context.nodes, tasks[0].job
    assert job is not None
    waits = bool(context.pipelined.tasks) and must_wait(context, job, tasks)
    place = transaction.pipeline if waits else transaction.place
    for number, task in enumerate(tasks):
        shape = task.shape
        index = nodes.best_node(shape)
        if index < 0:
            return shape, sum(1 for placed in tasks[:number] if placed.shape is shape)
        place(task, index, stamp, owed)
    return None
