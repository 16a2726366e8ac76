"""Which jobs are served before a job, at which level of the share tree.

The serving order decides. If the job can be placed now, its competitors are the jobs that can be placed too. If not,
they are all pending jobs that no plugin rejects, as if each could be placed: that is the order when capacity is freed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.candidates.job_demand import barred_shapes, can_ever_start
from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.explain.wait_report import Amounts, Competition, Competitor, TreeLevel
from pumice.engine.explain.wording import AmountFormatter
from pumice.engine.fairness.orders.serving_order import HeapOrder
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, NodeKind, ShareNode
from pumice.engine.placement.domain_placement import domains_with_room, inside, roomiest_domain
from pumice.engine.transaction import Transaction
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.engine import Engine

TIERS = ("an earlier tier", "", "a later tier", "being served less recently", "age")
"""Labels for the parts of a heap entry; the key itself has the name of its measure."""


def find_competition(engine: Engine, leaf: JobNode) -> Competition:
    """Determine the order among the competing candidates; restores all state."""
    order = engine.order
    waiting = [other for other in engine.tree.jobs.values() if other.unit is not None]
    supposing = not leaf.placeable or not fits_whole(engine, leaf)
    running = {
        other: other is leaf or (_would_run(engine, other) if supposing else other.placeable) for other in waiting
    }
    try:
        for other, runs in running.items():
            order.set_candidate(other, other.unit.ask, runs)
        # Only an attempt can tell whether a unit passes the plugins and all of it can be placed, as in a cycle.
        while (
            (first := order.next_job()) is not None and first is not leaf and not _can_start(engine, first, supposing)
        ):
            order.set_candidate(first, first.unit.ask, False)
        return _held(engine, leaf, first, supposing)
    finally:
        for other in waiting:
            engine.candidates.offer_again(other)


def _would_run(engine: Engine, other: JobNode) -> bool:
    """Whether a job would be a candidate if it could be placed."""
    if not engine.candidates.fifo_queues.is_head(other) or not _can_ever_start(engine, other):
        return False
    return engine.policy.allocatable(other, other.unit) is None


def _can_start(engine: Engine, leaf: JobNode, supposing: bool) -> bool:
    return supposing or (engine.policy.allocatable(leaf, leaf.unit) is None and fits_whole(engine, leaf))


def fits_whole(engine: Engine, leaf: JobNode) -> bool:
    """Whether all tasks of an open unit, as far as is known, can be placed. Nothing stays placed."""
    unit: AllocationUnit = leaf.unit
    return (unit.size == 1 and not unit.coupled) or fitting_now(engine, leaf, unit) == unit.size


def fitting_now(engine: Engine, leaf: JobNode, unit: AllocationUnit) -> int:
    """How many tasks of a unit can be placed now, by an actual attempt; nothing stays placed."""
    nodes, rule = engine.nodes, unit.topology
    if rule is None or not rule.hard:
        return _fitting(engine, leaf, unit)
    domain = next(domains_with_room(nodes, unit.parts, rule), None) or roomiest_domain(nodes, unit.parts, rule)
    if domain is None:
        return 0
    with inside(nodes, domain):
        return _fitting(engine, leaf, unit)


def _fitting(engine: Engine, leaf: JobNode, unit: AllocationUnit) -> int:
    transaction, placed = Transaction(engine.context), 0
    for task in unit_tasks(leaf, unit):
        index = engine.nodes.best_node(task.shape)
        if index >= 0:
            transaction.place(task, index, engine.context.next_start_time())
            placed += 1
    transaction.discard()
    return placed


def _can_ever_start(engine: Engine, leaf: JobNode) -> bool:
    """Whether a job's next unit fits an empty cluster."""
    barred = barred_shapes(leaf.job, engine.nodes)
    if any(shape in barred for shape, _ in leaf.unit.parts):
        return False
    start = engine.policy.start_size(leaf.job)
    return can_ever_start(leaf.job, start, barred, engine.nodes, engine.state.capacity)


def _held(engine: Engine, leaf: JobNode, first: JobNode | None, supposing: bool) -> Competition:
    order = engine.order
    asks = tuple(j for j, _ in leaf.unit.ask)
    path = _path(leaf)
    rungs = []
    for above, ours in pairwise(path):
        ranked = order.ranked(above) if isinstance(order, HeapOrder) and first is not None else []
        rungs.append(_rung(engine, ours, ranked, asks))
    return Competition(order.measure, order.lending, supposing, first.name if first is not None else None, rungs)


def _path(leaf: JobNode) -> list[ShareNode]:
    path: list[ShareNode] = [leaf]
    while (above := path[-1].parent) is not None:
        path.append(above)
    return path[::-1]


def _rung(engine: Engine, ours: ShareNode, ranked: list[Entry], asks: tuple[int, ...]) -> TreeLevel:
    place = next((i for i, entry in enumerate(ranked) if entry[-1] is ours), None)
    mine = ranked[place] if place is not None else None
    if place == 0 or not ranked:
        return TreeLevel(_side(engine, ours, mine, asks), None, 1 if ranked else None, len(ranked))
    by = "" if mine is None else _decided(engine, mine, ranked[0])
    first = _side(engine, ranked[0][-1], ranked[0], asks)
    return TreeLevel(_side(engine, ours, mine, asks), first, None if place is None else place + 1, len(ranked), by)


def _decided(engine: Engine, mine: Entry, first: Entry) -> str:
    differing = next((i for i, (a, b) in enumerate(zip(mine, first, strict=False)) if a != b), 4)
    if differing == 1:
        return engine.order.measure
    if differing == 0 and not isinstance(mine[-1], JobNode):
        return "priority"
    return TIERS[min(differing, 4)]


def _side(engine: Engine, node: ShareNode, entry: Entry | None, asks: tuple[int, ...]) -> Competitor:
    wording, order, capacity = AmountFormatter(engine.state.registry), engine.order, engine.state.capacity
    steers, deserves = order.has_targets, node.kind is NodeKind.QUEUE and order.deserved_by(node) is not None
    due = order.entitlement_of(node) if deserves else node.entitled
    targets = steers or deserves
    return Competitor(
        node.path if not isinstance(node, JobNode) else node.name,
        node.weight,
        wording.vector(node.held, asks),
        wording.vector(due, asks) if targets else {},
        wording.vector(whole_target(node), asks) if steers else {},
        dominant_share(node.held, capacity),
        dominant_share(due, capacity) if targets else 0.0,
        order.display_key(entry) if entry is not None and isinstance(order, HeapOrder) else None,
        bool(node.owed_asks) if steers else entry is not None,
        limit_of(engine, node),
    )


def whole_target(node: ShareNode) -> list[int]:
    """The sum of the integer targets of the jobs below a node."""
    total = [0] * len(node.held)
    for leaf in node.walk():
        if isinstance(leaf, JobNode):
            for j, amount in enumerate(leaf.integer_target):
                total[j] += amount
    return total


def limit_of(engine: Engine, node: ShareNode) -> Amounts:
    """The limit of a node, for the resources where it is less than the cluster."""
    bounds = zip(node.ceiling or (), engine.state.capacity, strict=False)
    items: Items = tuple((j, most) for j, (most, whole) in enumerate(bounds) if most < whole and j != PODS)
    return AmountFormatter(engine.state.registry).items(items)
