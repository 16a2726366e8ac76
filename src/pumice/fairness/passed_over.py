"""Rounding, the units behind one that was passed over: the same passes once more, for these jobs alone.

By now nodes far up may have given more than they have, to somebody else's children. So unlike in the first round a unit
that fits a node need not fit those above it, and nodes of one depth do get into each other's way: a pass looks at all
jobs at once, from the root. They are few, and so is what is left for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.fairness.tree import JobNode, ShareNode
from pumice.fairness.walk import Walk, entry_of
from pumice.model.objects import Items

if TYPE_CHECKING:
    from pumice.fairness.rounding import Given, Rounding

Paths = dict[JobNode, list[ShareNode]]
"""Jobs, and the nodes from the root down to each."""


def serve_passed_over(rounding: Rounding, jobs: list[JobNode], given: list[Given]) -> None:
    """Hand out the next units of these jobs by all passes, from the jobs' own entitlements up to the cluster."""
    paths = {leaf: _path(leaf) for leaf in jobs}
    for depth in reversed(range(max(map(len, paths.values()), default=0))):
        for missing_only in (True, False) if depth else (True,):
            while able := _able(rounding, paths, depth, held=True, missing_only=missing_only):
                rounding.give(_next(rounding, able), given)
            _serve_waiting(rounding, paths, depth, given, missing_only=missing_only)


def _serve_waiting(rounding: Rounding, paths: Paths, depth: int, given: list[Given], *, missing_only: bool) -> None:
    able = _able(rounding, paths, depth, held=False, missing_only=missing_only)
    walk = _WalkOfAll(rounding, able, depth, missing_only=missing_only)
    while (leaf := walk.next()) is not None:
        rounding.give(leaf, given)
        walk.served(leaf)
        if _able(rounding, {leaf: paths[leaf]}, depth, held=False, missing_only=missing_only):
            walk.enter(leaf)


class _WalkOfAll(Walk):
    """A walk from the root in which every node down to a depth may run out of room."""

    def __init__(self, rounding: Rounding, paths: Paths, depth: int, *, missing_only: bool) -> None:
        super().__init__(rounding, rounding.tree.root, list(paths), missing_only=missing_only)
        self._paths = dict(paths)
        self._depth = depth
        self._too_large: set[tuple[ShareNode, Items]] = set()  # units for which a node has no room any more

    def served(self, leaf: JobNode) -> None:
        """A job got its unit: it, and whoever has no room or nothing missing any more, takes part no longer."""
        unit, path = self._asks[leaf], self._paths[leaf]
        self._leave(leaf)
        for depth, node in enumerate(path[: self._depth + 1]):
            for other in [other for other in self._by_unit if (node, other) not in self._too_large]:
                if not self._rounding.holds(node, other):
                    self._too_large.add((node, other))
                    self._leave_all(
                        job for job in self._by_unit[other] if self._paths[job][depth : depth + 1] == [node]
                    )
        if self._rooms is not None:
            self._leave_all(self._rooms.too_large())
        if self._missing_only:
            for node in path[self._depth + 1 :]:
                if any(not self._rounding.misses(node, ((j, amount),)) for j, amount in unit):
                    below = self._able_below(node)
                    self._leave_all(job for job in below if not self._rounding.misses(node, self._asks[job]))

    def _leave_all(self, jobs: Iterable[JobNode]) -> None:
        for job in list(jobs):
            self._leave(job)


def _path(leaf: JobNode) -> list[ShareNode]:
    """The nodes from the root down to a job."""
    path: list[ShareNode] = []
    node: ShareNode | None = leaf
    while node is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


def _able(rounding: Rounding, paths: Paths, depth: int, *, held: bool, missing_only: bool) -> Paths:
    """The jobs whose next unit fits all nodes down to a depth; of units that run already, the largest."""
    able = {
        leaf: path
        for leaf, path in paths.items()
        if leaf.head
        and leaf.head_held is held
        and all(rounding.holds(node, leaf.head) for node in path[: depth + 1])
        and (not missing_only or all(rounding.misses(node, leaf.head) for node in path[depth + 1 :]))
        and (rounding.rooms is None or rounding.rooms.fits(leaf, leaf.head))
    }
    if held and able:
        largest = max(map(rounding.size, able))
        able = {leaf: path for leaf, path in able.items() if rounding.size(leaf) == largest}
    return able


def _next(rounding: Rounding, able: Paths) -> JobNode:
    """The job at the end of the walk from the root to the child that misses most."""
    depth = 0
    while True:
        depth += 1
        asked: dict[ShareNode, set[int]] = {}
        for leaf, path in able.items():
            asked.setdefault(path[depth], set()).update(j for j, _ in leaf.head)
        first: ShareNode = min(entry_of(node, resources, rounding.scale) for node, resources in asked.items())[-1]
        if isinstance(first, JobNode):
            return first
        able = {leaf: path for leaf, path in able.items() if path[depth] is first}
