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
    from pumice.engine.fairness.integer_target.unit_passes import UnitGroups, UnitPasses


class _Branch:
    """A node of the walk: the able jobs below it, what they ask for, and its children in order."""

    __slots__ = ("able", "branches", "count", "heap", "satisfied")

    def __init__(self) -> None:
        self.count: dict[int, int] = {}
        self.heap: list[Entry] = []
        self.able: dict[JobNode, None] = {}  # the able jobs among the children
        self.branches: dict[ShareNode, None] = {}  # the other children below which there are or were able jobs
        self.satisfied: set[int] = set()  # resources of which the node has no deficit any more


class _GroupUnits:
    """The units that the able jobs of a group ask for, so that those that no longer fit its deficit are found."""

    __slots__ = ("by_amount", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[Items, dict[JobNode, None]] = {}
        self.by_amount: dict[int, list[tuple[int, Items]]] = {}  # per resource the units, the largest last


class UnitWalk:
    """Candidates below a node, in the order in which they are served."""

    def __init__(self, passes: UnitPasses, groups: UnitGroups, jobs: list[JobNode], *, missing_only: bool) -> None:
        self._passes = passes
        self._groups = groups
        self._top = groups.top
        self._missing_only = missing_only
        self._asks: dict[JobNode, Items] = {}  # the able jobs, and the room that their next unit needs
        self._branches: dict[ShareNode, _Branch] = {}
        self._units: dict[ShareNode, _GroupUnits] = {}  # per group
        self.left: list[JobNode] = []  # jobs that dropped out, in that order
        self._headroom = passes.headroom
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
        for units in self._units.values():
            for line in units.by_amount.values():
                line.sort()

    def _count_in(self, leaf: JobNode) -> list[ShareNode]:
        """Count an able job; returns the nodes on its path below the top."""
        unit = leaf.head_room
        self._asks[leaf] = unit
        group = self._groups.group_of(leaf)
        units = self._units.get(group)
        if units is None:
            units = self._units[group] = _GroupUnits()
        alike = units.jobs.get(unit)
        if alike is None:
            alike = units.jobs[unit] = {}
            for j, amount in unit:
                units.by_amount.setdefault(j, []).append((amount, unit))
        alike[leaf] = None
        if self._headroom is not None:
            self._headroom.line_up(leaf, unit)
        path: list[ShareNode] = []
        node: ShareNode = leaf
        while node is not self._top:
            path.append(node)
            child = node
            assert node.parent is not None
            node = node.parent
            branch = self._branches.get(node)
            if branch is None:
                branch = self._branches[node] = _Branch()
            if child is leaf:
                branch.able[leaf] = None
            else:
                branch.branches[child] = None
            for j, _ in unit:
                branch.count[j] = branch.count.get(j, 0) + 1
        return path

    def enter(self, leaf: JobNode) -> None:
        """Let a job continue with its next unit."""
        group = self._groups.group_of(leaf)
        units = self._units[group]
        new = leaf.head_room not in units.jobs
        path = self._count_in(leaf)
        if new:
            for j, _ in leaf.head_room:
                units.by_amount[j].sort()
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
        node = self._top
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
        group = self._groups.group_of(leaf)
        units = self._units[group]
        for j, _ in unit:
            line, room = units.by_amount[j], self._passes.room(group, j)
            while line and line[-1][0] > room:
                for other in list(units.jobs.get(line.pop()[1], ())):
                    self._leave(other)
        if self._headroom is not None:
            for other in self._headroom.too_large():
                self._leave(other)
        if self._missing_only:
            assert leaf.parent is not None
            node = leaf.parent
            while node is not group:
                self._end_deficits(node, unit)
                assert node.parent is not None
                node = node.parent

    def _end_deficits(self, node: ShareNode, unit: Items) -> None:
        """After a unit was handed out below a node: remove the jobs below that ask only for what it does not miss now.

        Every able job asks for something that all nodes between it and its group miss, and deficits only shrink: so the
        jobs have to be looked at only when the deficit of one more resource has ended.
        """
        satisfied, misses = self._branches[node].satisfied, self._passes.misses
        ended = [j for j, amount in unit if j not in satisfied and not misses(node, ((j, amount),))]
        if ended:
            satisfied.update(ended)
            for other in self._able_below(node):
                if not misses(node, self._asks[other]):
                    self._leave(other)

    def _able_below(self, top: ShareNode) -> list[JobNode]:
        found: list[JobNode] = []
        stack = [top]
        while stack:
            branch = self._branches[stack.pop()]
            found += branch.able
            stack += branch.branches
        return found

    def _leave(self, leaf: JobNode) -> None:
        unit = self._asks.pop(leaf, None)
        if unit is None:
            return
        self.left.append(leaf)
        del self._units[self._groups.group_of(leaf)].jobs[unit][leaf]
        assert leaf.parent is not None
        del self._branches[leaf.parent].able[leaf]
        node: ShareNode = leaf
        while node is not self._top:
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
        return entry_of(node, asked, self._passes.scale)


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
