"""The growth paths of nodes in a phase of the target solver, and how limits cut and continue them.

A path gives what a node has received since the phase began, as a function of its children's common level. The points of
all growing nodes of one depth are stored end to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pumice.engine.fairness.fluid_target.polyline import (
    BoolArray,
    CurvePoint,
    FloatArray,
    IntArray,
    place_between,
    run_ends,
    sort_by,
)
from pumice.engine.fairness.fluid_target.solver_limits import LimitState, Restraint, Stops, first_stops

if TYPE_CHECKING:
    from pumice.engine.fairness.fluid_target.solver_phase import SolverPhase


@dataclass(slots=True)
class GrowthPaths:
    """The paths of the growing nodes of one depth, stored end to end: one entry per point."""

    node: IntArray
    turn: IntArray  # the class of children that grows there; a later phase adds the number of classes
    inner: CurvePoint  # the position of these children
    rows: FloatArray  # what the node has received
    outer: CurvePoint | None = None  # the position of the node among its siblings; None for the root
    later: SolverPhase | None = None  # continues the paths that were cut
    number: IntArray | None = None  # of points in a later phase: their index in that phase

    def insert(self, a: IntArray, way: FloatArray) -> GrowthPaths:
        """Insert one point after each of the points ``a``, at the fraction ``way`` of the segment."""
        if len(a) == 0:
            return self
        place, rows = self.inner, self.rows
        old = np.ones(len(self.node) + len(a), dtype=bool)
        old[a + 1 + np.arange(len(a))] = False
        point = np.cumsum(old) - 1  # each new point starts as a copy of the point before it
        new = np.flatnonzero(~old)
        b = a + 1
        there = place_between(place.take(a), place.take(b), way)
        begun = rows.take(a, axis=0)
        inner, longer = place.take(point), rows.take(point, axis=0)
        inner.level[new], inner.sliver[new] = there.level, there.sliver
        longer[new] = begun + way[:, None] * (rows.take(b, axis=0) - begun)
        return GrowthPaths(self.node.take(point), self.turn.take(point), inner, longer)


def cut(paths: GrowthPaths, stops: Stops) -> GrowthPaths:
    """Cut the paths at their stops."""
    before, after, way = stops.before, stops.after, stops.way
    end = np.full(int(paths.node.max()) + 1, len(paths.node))
    end[paths.node[after]] = after
    place = place_between(paths.inner.take(before), paths.inner.take(after), way)
    there = (way == 1) | (paths.turn[before] != paths.turn[after])
    level, sliver, rows = paths.inner.level.copy(), paths.inner.sliver.copy(), paths.rows.copy()
    level[after] = np.where(there, level[after], place.level)
    sliver[after] = np.where(there, sliver[after], place.sliver)
    rows[after] = rows[before] + way[:, None] * (rows[after] - rows[before])
    keep = np.flatnonzero(np.arange(len(paths.node)) <= end.take(paths.node))
    return GrowthPaths(
        paths.node.take(keep), paths.turn.take(keep), CurvePoint(level, sliver).take(keep), rows.take(keep, axis=0)
    )


def joined(paths: GrowthPaths, later: SolverPhase, d: int, classes: int) -> GrowthPaths:
    """Append the paths of a later phase to the ends of the paths that it continues."""
    rest = later.paths[d]
    ends = np.zeros((int(paths.node.max()) + 1, paths.rows.shape[1]))
    last = np.flatnonzero(run_ends(paths.node))
    ends[paths.node[last]] = paths.rows[last]
    node = np.concatenate([paths.node, rest.node])
    order = np.argsort(node, kind="stable")
    own = np.full(len(paths.node), -1)
    return GrowthPaths(
        node.take(order),
        np.concatenate([paths.turn, rest.turn + classes]).take(order),
        CurvePoint(
            np.concatenate([paths.inner.level, rest.inner.level]),
            np.concatenate([paths.inner.sliver, rest.inner.sliver]),
        ).take(order),
        np.concatenate([paths.rows, ends.take(rest.node, axis=0) + rest.rows]).take(order, axis=0),
        later=later,
        number=np.concatenate([own, np.arange(len(rest.node))]).take(order),
    )


class Limited:
    """The limits of a phase: where paths reach them, and what is claimed."""

    def __init__(
        self, restraint: Restraint, standing: LimitState, closed: BoolArray, rows: FloatArray, active: IntArray
    ) -> None:
        self.restraint, self.standing, self.closed = restraint, standing, closed
        self.unused = restraint.guarantee > standing.sums if restraint.reserving else None
        self._rows, self._active = rows, active
        self._all_need: BoolArray | None = None

    def within_caps(self, held: FloatArray, most: FloatArray) -> FloatArray:
        """The maximum of each leaf before its user's cap binds."""
        return self.restraint.within_caps(self._active, self._rows, held, most, self.standing)

    def binds_at(self, depth: slice) -> bool:
        """Whether a node of this depth has a limit."""
        return bool(np.isfinite(self.standing.left[depth]).any())

    def stops(self, paths: GrowthPaths) -> Stops:
        """The first point at which each path reaches a limit."""
        return first_stops(
            paths.node, paths.rows[:, self.restraint.watched], self.standing.left.take(paths.node, axis=0)
        )

    def partly(self, node: IntArray, column: IntArray) -> BoolArray:
        """The nodes below which not all leaves need the resource of this column."""
        if self._all_need is None:
            self._all_need = self._needed_by_all()
        partly: BoolArray = ~self._all_need[node, column]
        return partly

    def _needed_by_all(self) -> BoolArray:
        tree = self.restraint.outline
        needs = (self._rows[:, self.restraint.watched] > 0).astype(np.float64)
        taking_part = np.zeros(len(needs))
        taking_part[self._active] = 1.0
        count = tree.totals(np.column_stack([needs * taking_part[:, None], taking_part]))
        all_need: BoolArray = count[:, :-1] == count[:, -1:]
        if self.unused is not None:  # a leaf that grows inside an unused guarantee continues
            inside = self.unused.astype(np.float64)
            for depth in reversed(tree.depths[1:]):
                np.maximum.at(inside, tree.parent[depth], inside[depth])
            below = np.zeros_like(inside)
            np.maximum.at(below, tree.parent[1:], inside[1:])
            all_need[:, : self.restraint.width] &= below == 0
        return all_need

    def in_claims(self, paths: GrowthPaths) -> GrowthPaths:
        """Convert paths from the sum of the children's claims to the claims of the nodes themselves."""
        if self.unused is None or not self.unused[paths.node].any():
            return paths
        claims, guarantee = self.restraint.claims, self.restraint.guarantee
        spare = (guarantee - self.standing.sums).take(paths.node, axis=0)
        # A claim is constant until the guarantee is used up: add the points where that happens.
        missing = spare - paths.rows[:, claims]
        used = (missing[:-1] > 0) & (missing[1:] < 0) & (paths.node[1:] == paths.node[:-1])[:, None]
        a, j = np.nonzero(used)
        way = missing[a, j] / (missing[a, j] - missing[a + 1, j])
        order = sort_by(a, way)
        paths = paths.insert(a[order], way[order])
        spare = (guarantee - self.standing.sums).take(paths.node, axis=0)
        rows = paths.rows[:, claims]
        paths.rows[:, claims] = np.where(spare > 0, np.maximum(rows - spare, 0.0), rows)
        return paths

    def used(self, base: FloatArray, root: GrowthPaths) -> FloatArray:
        """The used fraction of the cluster along the root's path: claims or, while guarantees are served, holdings."""
        restraint = self.restraint
        used: FloatArray = self.standing.sums[0] + root.rows[:, restraint.claims]
        if restraint.guaranteeing:
            used = base[0] + root.rows[:, : restraint.width]
        return used
