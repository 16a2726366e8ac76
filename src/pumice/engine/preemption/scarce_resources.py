"""Scarce resources: which parts of a unit need victims, and which are idle anyway (docs/fairness.md, section 9.5).

A queue that reclaims what it deserves is judged by what it takes from others. What its task needs beyond that may be
borrowed if it is idle: a queue that deserves a GPU gets it back even if the cpu of the task comes from idle capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.state.cluster_node import ClusterNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.placement.node_table import NodeTable


def scarce_on(node: ClusterNode, unit: AllocationUnit) -> set[int]:
    """The resources of which a node will not have enough for a task of the unit unless a task is evicted."""
    return {j for shape, _ in unit.parts for j, amount in shape.ask if node.future(j) < amount}


def scarce_everywhere(nodes: NodeTable, unit: AllocationUnit) -> Items:
    """The part of a unit's request of which no eligible node has enough idle; the whole request if there is none.

    If different resources are short on different nodes, none of them can be left out.
    """
    nodes.sync_idle()
    short: set[int] = set()
    for shape, _ in unit.parts:
        possible = nodes.view(shape).mask.copy()
        for j, amount in shape.items:
            possible &= nodes.allocatable[j] >= amount
        short.update(j for j, amount in shape.ask if not (nodes.idle[j][possible] >= amount).any())
    return tuple((j, amount) for j, amount in unit.ask if j in short) or unit.ask
