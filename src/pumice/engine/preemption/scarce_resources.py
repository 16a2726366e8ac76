"""Scarce resources: what a unit has to take from others, and what lies idle for it (docs/fairness.md, section 9.5).

A queue that takes back what it deserves is judged by what it takes. What its task needs beyond that and nobody uses may
be borrowed as always: a queue that deserves a GPU gets it back also if the cpu of the task comes from what is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.state.cluster_node import ClusterNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.placement.node_table import NodeTable


def scarce_on(node: ClusterNode, unit: AllocationUnit) -> set[int]:
    """The resources of which a node will not have enough for a task of the unit unless somebody goes."""
    return {j for shape, _ in unit.parts for j, amount in shape.ask if node.future(j) < amount}


def scarce_everywhere(nodes: NodeTable, unit: AllocationUnit) -> Items:
    """Of what a unit asks for, that of which no node where it may run has enough idle; all of it, if that is nothing.

    Where different resources are short on different nodes, nothing can be left out.
    """
    nodes.sync_idle()
    short: set[int] = set()
    for shape, _ in unit.parts:
        possible = nodes.view(shape).mask.copy()
        for j, amount in shape.items:
            possible &= nodes.allocatable[j] >= amount
        short.update(j for j, amount in shape.ask if not (nodes.idle[j][possible] >= amount).any())
    return tuple((j, amount) for j, amount in unit.ask if j in short) or unit.ask
