"""The share tree as the entitlement solver sees it: arrays of inner nodes, breadth first, and of leaves.

Everything is numbered so that whole depths, and the leaves of a parent, lie side by side: what a node does
with its children is then one NumPy call for all nodes of a depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.fairness.polyline import FloatArray, IntArray, numbered, run_starts, start_of_run


@dataclass(frozen=True, slots=True)
class Outline:
    """The inner nodes, breadth first, and the leaves that want something, by parent and class."""

    parent: IntArray
    weight: FloatArray
    depths: list[slice]  # the nodes of each depth
    leaf_parent: IntArray
    leaf_weight: FloatArray
    leaf_class: IntArray  # 0, 1, ... inside its parent
    classes: int

    def totals(self, given: FloatArray) -> FloatArray:
        """What each inner node holds, by what its leaves hold."""
        total = self.of_leaves(given)
        for depth in reversed(self.depths[1:]):
            np.add.at(total, self.parent[depth], total[depth])
        return total

    def of_leaves(self, given: FloatArray) -> FloatArray:
        """What the leaves right below each inner node hold together."""
        count = len(self.parent)
        total: FloatArray = np.column_stack([np.bincount(self.leaf_parent, column, count) for column in given.T])
        return total

    def head_of_leaves(self, heads: IntArray) -> IntArray:
        """Which of these nodes, none of them above another, each leaf lies below; -1: none."""
        head = np.full(len(self.parent), -1, dtype=np.int64)
        head[heads] = np.arange(len(heads))
        for depth in self.depths[1:]:
            head[depth] = np.maximum(head[depth], head[self.parent[depth]])
        return head[self.leaf_parent]


def plant(
    parent: IntArray, weight: FloatArray, leaf: IntArray, wanting: IntArray, rank: IntArray
) -> tuple[Outline, IntArray, IntArray]:
    """The outline, the inner nodes in its order, and the order in which it has the wanting leaves."""
    inner = np.ones(len(parent), dtype=bool)
    inner[leaf] = False
    nodes, depths = _breadth_first(parent, np.flatnonzero(inner))
    number = np.full(len(parent) + 1, -1, dtype=np.int64)  # the last entry is what parent -1 finds
    number[nodes] = np.arange(len(nodes))
    above = number[parent[leaf[wanting]]]
    order = np.lexsort((rank, above))
    above, rank = above[order], rank[order]
    first = run_starts(above)
    count = numbered(first | run_starts(rank))
    nth = count - count[start_of_run(first)]
    outline = Outline(
        parent=number[parent[nodes]],
        weight=weight[nodes].astype(np.float64),
        depths=depths,
        leaf_parent=above,
        leaf_weight=weight[leaf[wanting[order]]].astype(np.float64),
        leaf_class=nth,
        classes=int(nth.max()) + 1,
    )
    return outline, nodes, order


def _breadth_first(parent: IntArray, inner: IntArray) -> tuple[IntArray, list[slice]]:
    """The inner nodes by depth, and there in the order of their parents; and the part of each depth."""
    depth = np.zeros(len(inner), dtype=np.int64)
    above = parent[inner]
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent.take(above), -1)
    rank = np.zeros(len(parent), dtype=np.int64)
    nodes, depths, start = [], [], 0
    for d in range(int(depth.max()) + 1):
        here = inner[depth == d]
        here = here[np.argsort(rank[parent[here]], kind="stable")]
        rank[here] = np.arange(len(here))
        nodes.append(here)
        depths.append(slice(start, start + len(here)))
        start += len(here)
    return np.concatenate(nodes), depths
