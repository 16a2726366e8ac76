"""The walk that finds the next unit in a rounding pass: from a node down to the child with the largest deficit.

While units are handed out, deficits only shrink and jobs only drop out, so a node's key only gets worse: the walk
detects a stale heap entry when it surfaces, and pushes it back where it belongs. A job that continues with a unit of a
different request may improve the keys above it; their entries are pushed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, ShareNode, latest_owed_start
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.integer_target.rounding import IntegerTargets


class _Branch:
    """A node of the walk: the resources that able jobs below it ask for, and its children in order."""

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count: dict[int, int] = {}
        self.heap: list[Entry] = []


class UnitWalk:
    """Candidates below a node, in the order in which they are served."""

    def __init__(self, rounding: IntegerTargets, group: ShareNode, jobs: list[JobNode], *, missing_only: bool) -> None:
        self._rounding = rounding
        self._group = group
        self._missing_only = missing_only
        self._asks: dict[JobNode, Items] = {}  # the able jobs, and the room that their next unit needs
        self._branches: dict[ShareNode, _Branch] = {}
        self._by_unit: dict[Items, dict[JobNode, None]] = {}
        self._by_amount: dict[int, list[tuple[int, Items]]] = {}  # per resource the units, the largest last
        self.left: list[JobNode] = []  # jobs that dropped out, in that order
        self._headroom = rounding.headroom
        if self._headroom is not None:
            self._headroom.clear_lines()
        children: dict[ShareNode, dict[ShareNode, None]] = {}
        for leaf in jobs:
            for above in self._count_in(leaf):
                assert above.parent is not None
                children.setdefault(above.parent, {})[above] = None
        for node, below in children.items():
            heap = self._branches[node].heap = [self._entry(child) for child in below]
            heapify(heap)
        for line in self._by_amount.values():
            line.sort()

    def _count_in(self, leaf: JobNode) -> list[ShareNode]:
        """Count an able job; returns the nodes on its path below the group."""
        unit = leaf.head_room
        self._asks[leaf] = unit
        alike = self._by_unit.get(unit)
        if alike is None:
            alike = self._by_unit[unit] = {}
            for j, amount in unit:
                self._by_amount.setdefault(j, []).append((amount, unit))
        alike[leaf] = None
        if self._headroom is not None:
            self._headroom.line_up(leaf, unit)
        path: list[ShareNode] = []
        node: ShareNode = leaf
        while node is not self._group:
            path.append(node)
            assert node.parent is not None
            node = node.parent
            branch = self._branches.get(node)
            if branch is None:
                branch = self._branches[node] = _Branch()
            for j, _ in unit:
                branch.count[j] = branch.count.get(j, 0) + 1
        return path

    def enter(self, leaf: JobNode) -> None:
        """Let a job continue with its next unit."""
        new = leaf.head_room not in self._by_unit
        path = self._count_in(leaf)
        if new:
            for j, _ in leaf.head_room:
                self._by_amount[j].sort()
        for node in path:
            assert node.parent is not None
            heappush(self._branches[node.parent].heap, self._entry(node))

    def able(self) -> list[JobNode]:
        """The jobs that may still be served."""
        return list(self._asks)

    def next(self) -> JobNode | None:
        """The job whose unit comes next; None if there is none."""
        if not self._asks:
            return None
        node = self._group
        while not isinstance(node, JobNode):
            node = self._first(node)
        return node

    def _first(self, node: ShareNode) -> ShareNode:
        heap = self._branches[node].heap
        while True:
            entry = heap[0]
            child: ShareNode = entry[-1]
            if not (child in self._asks if isinstance(child, JobNode) else any(self._branches[child].count.values())):
                heappop(heap)
                continue
            fresh = self._entry(child)
            if fresh == entry:
                return child
            heapreplace(heap, fresh)

    def served(self, leaf: JobNode) -> None:
        """Remove a job that got its unit, and all jobs that no longer fit or no longer have a deficit."""
        unit = self._asks[leaf]
        self._leave(leaf)
        for j, _ in unit:
            line, room = self._by_amount[j], self._rounding.room(self._group, j)
            while line and line[-1][0] > room:
                for other in list(self._by_unit.get(line.pop()[1], ())):
                    self._leave(other)
        if self._headroom is not None:
            for other in self._headroom.too_large():
                self._leave(other)
        if self._missing_only:
            node: ShareNode = leaf
            while node is not self._group:
                if any(not self._rounding.misses(node, ((j, amount),)) for j, amount in unit):
                    for other in self._able_below(node):
                        if not self._rounding.misses(node, self._asks[other]):
                            self._leave(other)
                assert node.parent is not None
                node = node.parent

    def _able_below(self, top: ShareNode) -> list[JobNode]:
        if isinstance(top, JobNode):
            return [top] if top in self._asks else []
        found, stack = [], [top]
        while stack:
            for child in stack.pop().children.values():
                if isinstance(child, JobNode):
                    if child in self._asks:
                        found.append(child)
                elif child in self._branches:
                    stack.append(child)
        return found

    def _leave(self, leaf: JobNode) -> None:
        unit = self._asks.pop(leaf, None)
        if unit is None:
            return
        self.left.append(leaf)
        del self._by_unit[unit][leaf]
        node: ShareNode = leaf
        while node is not self._group:
            assert node.parent is not None
            node = node.parent
            count = self._branches[node].count
            for j, _ in unit:
                count[j] -= 1

    def _entry(self, node: ShareNode) -> Entry:
        if isinstance(node, JobNode):
            asked = [j for j, _ in self._asks[node]]
        else:
            asked = [j for j, count in self._branches[node].count.items() if count]
        return entry_of(node, asked, self._rounding.scale)


def entry_of(node: ShareNode, asked: Iterable[int], scale: list[int]) -> Entry:
    """The key of a node: its largest deficit, as a fraction of the cluster, over the resources asked for below it."""
    want = -(2.0**20)
    exact, whole = node.exact, node.integer_target
    for j in asked:
        part = (exact[j] - whole[j] * EXACT) / scale[j]
        if part > want:
            want = part
    key = -((want + GRID_ROUNDER) - GRID_ROUNDER)
    served = latest_owed_start(node) if node.stale_owed else node.latest_owed
    if isinstance(node, JobNode):
        return (node.rank_class, node.before, key, node.after, served, node.last_turn, node.rank, node)
    return ((), (), key, (), served, node.last_turn, node.rank, node)
