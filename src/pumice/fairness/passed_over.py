"""Rounding, the units behind one that was passed over: the same passes once more, for these jobs alone.

By now nodes far up may have given more than they have, to somebody else's children. So unlike in the first round a unit
that fits a node need not fit those above it, and nodes of one depth do get into each other's way: a pass looks at all
jobs at once, from the root. They are few, and so is what is left for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.fairness.tree import JobNode, ShareNode
from pumice.fairness.walk import entry_of

if TYPE_CHECKING:
    from pumice.fairness.rounding import Given, Rounding


def serve_passed_over(rounding: Rounding, jobs: list[JobNode], given: list[Given]) -> None:
    """Hand out the next units of these jobs by all passes, from the jobs' own entitlements up to the cluster."""
    paths = {leaf: _path(leaf) for leaf in jobs}
    for depth in reversed(range(max(map(len, paths.values()), default=0))):
        for missing_only in (True, False) if depth else (True,):
            for held in (True, False):
                while able := _able(rounding, paths, depth, held=held, missing_only=missing_only):
                    rounding.give(_next(rounding, able), given)


def _path(leaf: JobNode) -> list[ShareNode]:
    """The nodes from the root down to a job."""
    path: list[ShareNode] = []
    node: ShareNode | None = leaf
    while node is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


def _able(
    rounding: Rounding, paths: dict[JobNode, list[ShareNode]], depth: int, *, held: bool, missing_only: bool
) -> dict[JobNode, list[ShareNode]]:
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


def _next(rounding: Rounding, able: dict[JobNode, list[ShareNode]]) -> JobNode:
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
