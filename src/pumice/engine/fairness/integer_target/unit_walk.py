"""The walk that finds the next unit in a rounding pass: from a node down to the child with the largest deficit.

While units are handed out, deficits only shrink and jobs only drop out, so a node's key only gets worse: the walk
forgets the entry of a node below which something has changed, and computes it anew when the old one surfaces in the
heap. A job that continues with a unit of a different request may improve the keys above it; their entries are pushed
again. A node with one child needs no key: the heap of a node is made when the walk first finds two children there.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from pumice.engine.fairness.integer_target.deficits import Deficits
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, ShareNode, latest_owed_start
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.integer_target.unit_passes import UnitGroups, UnitPasses


class _Branch:
    """A node of the walk: the able jobs below it, what they ask for, and its children in order."""

    __slots__ = ("able", "branches", "count", "entry", "heap", "satisfied")

    def __init__(self) -> None:
        self.count: dict[int, int] = {}  # the able jobs below that ask for a resource
        self.entry: Entry | None = None  # its entry among its siblings; None: to be computed
        self.heap: list[Entry] | None = None  # None: not needed so far
        self.able: dict[JobNode, Entry | None] = {}  # the able jobs among the children, with their entries
        self.branches: dict[ShareNode, _Branch] = {}  # the other children below which there are able jobs
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
        self._deficits = passes.deficits
        self._groups = groups
        self._top = groups.top
        self._missing_only = missing_only
        self._asks: dict[JobNode, Items] = {}  # the able jobs, and the room that their next unit needs
        self._branches: dict[ShareNode, _Branch] = {groups.top: _Branch()}
        self._units: dict[ShareNode, _GroupUnits] = {}  # per group
        self.left: list[JobNode] = []  # jobs that dropped out, in that order
        self._headroom = passes.headroom
        if self._headroom is not None:
            self._headroom.clear_lines()
        for leaf in jobs:
            self._count_in(leaf)
        for units in self._units.values():
            for line in units.by_amount.values():
                line.sort()

    def _count_in(self, leaf: JobNode) -> None:
        """Count an able job at all nodes between it and the top."""
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
        assert leaf.parent is not None
        node: ShareNode = leaf.parent
        branch = self._branch(node)
        branch.able[leaf] = None
        while True:
            count = branch.count
            for j, _ in unit:
                count[j] = count.get(j, 0) + 1
            if node is self._top:
                break
            assert node.parent is not None
            child, below = node, branch
            node = node.parent
            branch = self._branch(node)
            branch.branches[child] = below

    def _branch(self, node: ShareNode) -> _Branch:
        branch = self._branches.get(node)
        if branch is None:
            branch = self._branches[node] = _Branch()
        return branch

    def enter(self, leaf: JobNode) -> None:
        """Let a job continue with its next unit."""
        units = self._units[self._groups.group_of(leaf)]
        new = leaf.head_room not in units.jobs
        self._count_in(leaf)
        if new:
            for j, _ in leaf.head_room:
                units.by_amount[j].sort()
        assert leaf.parent is not None
        node: ShareNode = leaf.parent
        branch = self._branches[node]
        if branch.heap is not None:
            entry = branch.able[leaf] = self._job_entry(leaf)
            heappush(branch.heap, entry)
        while node is not self._top:
            assert node.parent is not None
            above = self._branches[node.parent]
            if above.heap is not None:
                entry = branch.entry = self._branch_entry(node, branch)
                heappush(above.heap, entry)
            node, branch = node.parent, above

    def able(self) -> list[JobNode]:
        """The jobs that may still be served."""
        return list(self._asks)

    def next(self) -> JobNode | None:
        """The job whose unit comes next; None if there is none."""
        if not self._asks:
            return None
        node = self._top
        while not isinstance(node, JobNode):
            node = self._first(self._branches[node])
        return node

    def _first(self, branch: _Branch) -> ShareNode:
        """The child of a node that comes first."""
        able, branches = branch.able, branch.branches
        heap = branch.heap
        if heap is None:
            if len(able) + len(branches) == 1:
                for leaf in able:
                    return leaf
                for node in branches:
                    return node
            heap = branch.heap = []
            for leaf in able:
                entry = able[leaf] = self._job_entry(leaf)
                heap.append(entry)
            for node, below in branches.items():
                entry = below.entry = self._branch_entry(node, below)
                heap.append(entry)
            heapify(heap)
        while True:
            entry = heap[0]
            child: ShareNode = entry[-1]
            if isinstance(child, JobNode):
                if able.get(child) is entry:
                    return child
                heappop(heap)  # it has left, or was pushed again with its next unit
                continue
            there = branches.get(child)
            if there is None or (there.entry is not None and there.entry is not entry):
                heappop(heap)
            elif there.entry is not None:
                return child
            else:
                entry = there.entry = self._branch_entry(child, there)
                heapreplace(heap, entry)

    def served(self, leaf: JobNode) -> None:
        """Remove a job that got its unit, and all jobs that no longer fit or no longer have a deficit."""
        unit = self._asks[leaf]
        self._leave(leaf)
        group = self._groups.group_of(leaf)
        units = self._units[group]
        for j, _ in unit:
            line = units.by_amount[j]
            while line and self._deficits.lacks(group, j, line[-1][0]):
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
        branch, deficits = self._branches[node], self._deficits
        ended = False
        for j, _ in unit:
            if j not in branch.satisfied and not deficits.misses_some(node, j):
                branch.satisfied.add(j)
                ended = True
        if ended:
            for other in _able_below(branch):
                if not deficits.misses(node, self._asks[other]):
                    self._leave(other)

    def _leave(self, leaf: JobNode) -> None:
        unit = self._asks.pop(leaf, None)
        if unit is None:
            return
        self.left.append(leaf)
        del self._units[self._groups.group_of(leaf)].jobs[unit][leaf]
        assert leaf.parent is not None
        node: ShareNode = leaf.parent
        branch = self._branches[node]
        del branch.able[leaf]
        while True:
            branch.entry = None
            count = branch.count
            for j, _ in unit:
                if count[j] > 1:
                    count[j] -= 1
                else:
                    del count[j]
            if node is self._top:
                break
            assert node.parent is not None
            above = self._branches[node.parent]
            if not branch.able and not branch.branches:
                del above.branches[node]
            node, branch = node.parent, above

    def _job_entry(self, leaf: JobNode) -> Entry:
        return entry_of(leaf, [j for j, _ in self._asks[leaf]], self._deficits)

    def _branch_entry(self, node: ShareNode, branch: _Branch) -> Entry:
        return entry_of(node, list(branch.count), self._deficits)


def _able_below(top: _Branch) -> list[JobNode]:
    found: list[JobNode] = []
    stack = [top]
    while stack:
        branch = stack.pop()
        found += branch.able
        stack += branch.branches.values()
    return found


def entry_of(node: ShareNode, asked: Iterable[int], deficits: Deficits) -> Entry:
    """The key of a node: its largest deficit, as a fraction of the cluster, over the resources asked for below it."""
    key = deficits.key(node, asked)
    served = latest_owed_start(node) if node.stale_owed else node.latest_owed
    if isinstance(node, JobNode):
        return (node.rank_class, node.before, key, node.after, served, node.last_turn, node.rank, node)
    return ((), (), key, (), served, node.last_turn, node.rank, node)
