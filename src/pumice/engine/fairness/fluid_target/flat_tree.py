"""The share tree as the target solver sees it: arrays of inner nodes, in breadth-first order, and of leaves.

The numbering keeps all nodes of one depth, and all leaves of one parent, contiguous, so that one NumPy call aggregates
children into parents for a whole depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.engine.fairness.fluid_target.polyline import (
    BoolArray,
    FloatArray,
    IntArray,
    numbered,
    run_starts,
    start_of_run,
)


@dataclass(frozen=True, slots=True)
class JobNodes:
    """Inner nodes that are jobs with heterogeneous tasks: their leaves are the pieces, served one after another."""

    node: IntArray
    rank: IntArray  # the class of each job among the leaves and jobs of its parent, smaller first


NO_JOB_NODES = JobNodes(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class FlatTree:
    """The inner nodes in breadth-first order, and the leaves with demand, sorted by parent and class."""

    parent: IntArray
    weight: FloatArray
    depths: list[slice]  # the nodes of each depth
    node_class: IntArray  # of each inner node inside its parent: 0, unless it is a job in a later class
    is_job: BoolArray  # which inner nodes are jobs with heterogeneous tasks: every resource counts in their share
    leaf_parent: IntArray
    leaf_weight: FloatArray
    leaf_class: IntArray  # numbered 0, 1, ... within the parent
    classes: int

    def totals(self, given: FloatArray) -> FloatArray:
        """Sum the holdings of the leaves up to every inner node."""
        total = self.of_leaves(given)
        for below, above in zip(reversed(self.depths[1:]), reversed(self.depths[:-1]), strict=True):
            # As add.at would sum, what a node has itself first, several times as fast.
            place = np.concatenate([np.arange(above.stop - above.start), self.parent[below] - above.start])
            for column in total.T:
                column[above] = np.bincount(place, np.concatenate([column[above], column[below]]))
        return total

    def of_leaves(self, given: FloatArray) -> FloatArray:
        """Sum the holdings of the leaves directly below each inner node."""
        count = len(self.parent)
        total: FloatArray = np.column_stack([np.bincount(self.leaf_parent, column, count) for column in given.T])
        return total

    def head_of_leaves(self, heads: IntArray) -> IntArray:
        """For each leaf the node of ``heads`` above it, or -1; no node of ``heads`` is an ancestor of another."""
        head = np.full(len(self.parent), -1, dtype=np.int64)
        head[heads] = np.arange(len(heads))
        for depth in self.depths[1:]:
            head[depth] = np.maximum(head[depth], head[self.parent[depth]])
        return head[self.leaf_parent]


def flatten_tree(
    parent: IntArray, weight: FloatArray, leaf: IntArray, wanting: IntArray, rank: IntArray, jobs: JobNodes
) -> tuple[FlatTree, IntArray, IntArray]:
    """Build the flat tree; also return its inner nodes and its leaves with demand, in the order of its arrays."""
    inner = np.ones(len(parent), dtype=bool)
    inner[leaf] = False
    nodes, depths = _breadth_first(parent, np.flatnonzero(inner))
    number = np.full(len(parent) + 1, -1, dtype=np.int64)  # the last entry is the number for parent -1
    number[nodes] = np.arange(len(nodes))
    above = number[parent[leaf[wanting]]]
    order = np.lexsort((rank, above))
    above, rank = above[order], rank[order]
    job = number[jobs.node]
    growing = np.zeros(len(nodes), dtype=bool)  # jobs with a piece that has demand
    growing[above] = True
    job, job_rank = job[growing[job]], jobs.rank[growing[job]]
    nth = _classes(np.concatenate([above, number[parent[nodes[job]]]]), np.concatenate([rank, job_rank]))
    node_class, is_job = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=bool)
    node_class[job], is_job[job] = nth[len(above) :], True
    outline = FlatTree(
        parent=number[parent[nodes]],
        weight=weight[nodes].astype(np.float64),
        depths=depths,
        node_class=node_class,
        is_job=is_job,
        leaf_parent=above,
        leaf_weight=weight[leaf[wanting[order]]].astype(np.float64),
        leaf_class=nth[: len(above)],
        classes=int(nth.max()) + 1,
    )
    return outline, nodes, order


def _classes(above: IntArray, rank: IntArray) -> IntArray:
    """The class of each child, numbered 0, 1, ... within its parent in the order of the ranks."""
    order = np.lexsort((rank, above))
    first = run_starts(above[order])
    count = numbered(first | run_starts(rank[order]))
    nth = np.empty_like(count)
    nth[order] = count - count[start_of_run(first)]
    return nth


def _breadth_first(parent: IntArray, inner: IntArray) -> tuple[IntArray, list[slice]]:
    """The inner nodes by depth, within a depth in the order of their parents; and the slice of each depth."""
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
