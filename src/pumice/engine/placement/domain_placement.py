"""Which domain of the network a gang goes to, for actions, preemption and reservations.

Each of them has its own measure of the room on a node (idle now, free once victims are gone, empty), and tries the
domains in turn. While a domain is tried, ``NodeTable.within`` keeps every task inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, Parts
from pumice.engine.placement.domain_table import Domain, Need, Slots
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.state.topology_rule import TopologyRule

if TYPE_CHECKING:
    from pumice.engine.placement.node_table import NodeTable


@contextmanager
def inside(nodes: NodeTable, domain: Domain) -> Iterator[None]:
    """Keep placements inside a domain."""
    nodes.keep_within(domain.nodes)
    try:
        yield
    finally:
        nodes.keep_within(None)


def domains_with_room(nodes: NodeTable, parts: Parts, rule: TopologyRule) -> Iterator[Domain]:
    """The domains that may have room for these tasks now: lowest tier first, then the one with the least room."""
    if nodes.domains is not None:
        yield from nodes.domains.fitting(_needs(parts, nodes.idle_slots), rule)


def domains_to_free(
    nodes: NodeTable, parts: Parts, rule: TopologyRule, freeable: Callable[[TaskShape], Slots]
) -> Iterator[Domain]:
    """The domains that may have room for these tasks after evictions: those first that have most room already."""
    if nodes.domains is None:
        return
    idle = _needs(parts, nodes.idle_slots)

    def lacking(domain: Domain) -> int:
        return sum(max(0, count - int(slots[domain.nodes].sum())) for slots, count in idle)

    found = list(nodes.domains.fitting(_needs(parts, freeable), rule))
    yield from sorted(found, key=lambda domain: (lacking(domain), domain.tier))


def domain_to_reserve(nodes: NodeTable, parts: Parts, rule: TopologyRule) -> Domain | None:
    """The domain that would hold these tasks if it were empty, and has most room for them now; None: there is none."""
    if nodes.domains is None:
        return None
    idle = _needs(parts, nodes.idle_slots)

    def takes(domain: Domain) -> int:
        return sum(min(count, int(slots[domain.nodes].sum())) for slots, count in idle)

    return max(nodes.domains.fitting(_needs(parts, nodes.empty_slots), rule), key=takes, default=None)


def roomiest_domain(nodes: NodeTable, parts: Parts, rule: TopologyRule, *, empty: bool = False) -> Domain | None:
    """The allowed domain that could take most of these tasks now, or if it were empty; None: there is none."""
    if nodes.domains is None:
        return None
    return nodes.domains.roomiest(_needs(parts, nodes.empty_slots if empty else nodes.idle_slots), rule)


def no_domain(nodes: NodeTable, unit: AllocationUnit) -> str | None:
    """Why a gang that must stay within one domain cannot be placed: no domain has room; None if one may have room."""
    rule = unit.topology
    if rule is None or not rule.hard or any(True for _ in domains_with_room(nodes, unit.parts, rule)):
        return None
    which = f"HyperNode of tier <= {rule.highest}"
    if rule.chain is not None:
        which += " that contains the job's other tasks"
    return f"no {which} has room for {unit.size} tasks{say_largest(nodes, unit.parts, rule)}"


def say_largest(nodes: NodeTable, parts: Parts, rule: TopologyRule, *, empty: bool = False) -> str:
    """The end of a sentence about a gang without a domain: which domain has most room for it, and how much."""
    domain = roomiest_domain(nodes, parts, rule, empty=empty)
    if domain is None:
        return "; there is no such HyperNode with nodes that suit it"
    return f"; the largest, {domain.name}, holds {domain.room}"


def _needs(parts: Parts, slots: Callable[[TaskShape], Slots]) -> list[Need]:
    return [(slots(shape), count) for shape, count in parts]
