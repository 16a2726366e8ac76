"""Which nodes fit a task, and why the others do not: each node counts once, by the first check that excludes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kubebase.resource_vector import Registry
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.explain.wait_report import ExcludedNodes, NodeFit, Shortage
from pumice.engine.explain.wording import AmountFormatter
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.state.task_shapes import TaskShape

if TYPE_CHECKING:
    from pumice.engine.plugins.plugin import Plugin

Mask = NDArray[np.bool_]

NAMED = 3
"""The maximum number of nodes named per group."""


def places_of(nodes: NodeTable, unit: AllocationUnit, registry: Registry, *, empty: bool = False) -> list[NodeFit]:
    """The node fit of all shapes of a unit. Empty: as if no task were placed."""
    return [places(nodes, shape, registry, tasks=tasks, empty=empty) for shape, tasks in unit.parts]


def places(nodes: NodeTable, shape: TaskShape, registry: Registry, *, tasks: int = 1, empty: bool = False) -> NodeFit:
    """The nodes that fit one task of a shape now, or when empty."""
    left = np.ones(len(nodes.nodes), np.bool_)
    out: list[ExcludedNodes] = []
    # On empty nodes other pods do not matter.
    judged = ~nodes.view(shape).mask if empty else np.ones(len(nodes.nodes), np.bool_)
    for reason, passes in _rules(nodes, shape):
        ruled_out = left & ~passes & judged
        if ruled_out.any():
            out.append(ExcludedNodes(reason, int(ruled_out.sum()), [], _names(nodes, ruled_out)))
            left &= ~ruled_out
    out += _lacking(nodes, shape, left, AmountFormatter(registry), empty=empty)
    return NodeFit(AmountFormatter(registry).items(shape.ask), tasks, len(nodes.nodes), int(left.sum()), out)


def _rules(nodes: NodeTable, shape: TaskShape) -> Iterator[tuple[str, Mask]]:
    specs = [node.spec for node in nodes.nodes]
    yield "not ready", np.array([spec is not None and spec.ready for spec in specs], np.bool_)
    yield "cordoned", np.array([spec is not None and not spec.unschedulable for spec in specs], np.bool_)
    for plugin in nodes.filters:
        yield from plugin.node_reasons(shape, nodes)
        yield from _unsaid(plugin, shape, nodes)


def _unsaid(plugin: Plugin, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[str, Mask]]:
    """The nodes that a plugin rejects without a reason."""
    for mask in (plugin.node_filter(shape, nodes), plugin.node_filter_now(shape, nodes) if shape.coupled else None):
        if mask is not None:
            yield f"rejected by plugin {plugin.name}", mask


def _lacking(
    nodes: NodeTable, shape: TaskShape, left: Mask, wording: AmountFormatter, *, empty: bool
) -> Iterator[ExcludedNodes]:
    """Nodes with too little free capacity, by resource; removes them from those that are left."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i in np.flatnonzero(left).tolist():
        node = nodes.nodes[i]
        room = node.allocatable if empty else node.idle
        lacks = tuple(j for j, amount in shape.items if room[j] < amount)
        if lacks:
            groups.setdefault(lacks, []).append(i)
            left[i] = False
    needs = dict(shape.items)
    for lacks, group in sorted(groups.items(), key=lambda found: (-len(found[1]), found[0])):
        rooms = [nodes.nodes[i].allocatable if empty else nodes.nodes[i].idle for i in group]
        found = [
            Shortage(
                wording.name(j), wording.amount(j, needs[j]), wording.amount(j, max(0, *(room[j] for room in rooms)))
            )
            for j in lacks
        ]
        reason = f"insufficient {' and '.join(lack.resource for lack in found)}"
        yield ExcludedNodes(reason, len(group), found, [nodes.nodes[i].name for i in group[:NAMED]])


def _names(nodes: NodeTable, mask: Mask) -> list[str]:
    return [nodes.nodes[i].name for i in np.flatnonzero(mask)[:NAMED].tolist()]


def slots_when_empty(nodes: NodeTable, shape: TaskShape) -> int:
    """How many tasks of a shape would fit if all nodes were empty."""
    slots: NDArray[np.int64] | None = None
    for j, amount in shape.items:
        here = nodes.allocatable[j] // amount
        slots = here if slots is None else np.minimum(slots, here)
    return 0 if slots is None else int(slots[nodes.view(shape).mask].sum())
