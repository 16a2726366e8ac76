"""One phase of the target solver: everything until the next resource is exhausted (see ``solver``).

The phase builds paths bottom-up, depth by depth, finds its end on the root's path, and then derives the positions of
all nodes top-down.

*Limits in a phase.* Where the children of a node reach its ceiling, the leaves that need that resource freeze and the
others continue. That affects nothing outside the node's subtree: so the phase does not end, only the path changes
direction. The solver cuts the path there, computes the holdings of the leaves below at that point, and a phase of the
subtree alone, without the frozen leaves, yields the rest of the path (``later``). One such phase continues all nodes of
a depth that reach a limit. It may reach limits again, here or further down, and is then continued in the same way.
Where all leaves below need the resource, the path simply ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pumice.engine.fairness.fluid_target.depth_steps import (
    NodePositions,
    ShareMeasure,
    paths_within,
    sum_children,
)
from pumice.engine.fairness.fluid_target.flat_tree import FlatTree
from pumice.engine.fairness.fluid_target.growth_paths import GrowthPaths, Limited, cut, joined
from pumice.engine.fairness.fluid_target.polyline import (
    BoolArray,
    CurvePoint,
    Curves,
    FloatArray,
    IntArray,
    cut_off,
    leaf_curves,
    run_ends,
    thinned,
)
from pumice.engine.fairness.fluid_target.solver_limits import FULL, Stops

MANY = 20_000  # points of leaves: above this a coarse first pass pays off
ROUGH = 8  # the coarse pass takes one in this many points of a curve,
AHEAD = 1.3  # and the exact pass follows curves this much further than the coarse pass came
BEYOND = 1e-9  # relative: how far past the end paths are followed, so that they are sure to reach it


@dataclass(slots=True)
class _Spot(NodePositions):
    """Positions of nodes, and their positions in a later phase, if any."""

    away: BoolArray  # below a node that is in a later phase
    later: list[tuple[SolverPhase, int, IntArray, tuple[IntArray, IntArray, FloatArray]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a phase ends: between two points of the root's path."""

    before: _Spot
    after: _Spot
    way: float
    used_up: BoolArray


class SolverPhase:
    """Everything between the exhaustion of one resource and of the next."""

    def __init__(
        self,
        tree: FlatTree,
        rows: FloatArray,
        held: FloatArray,
        wanted: FloatArray,
        active: IntArray,
        available: BoolArray,
        limited: Limited | None = None,
        room: FloatArray | None = None,
    ) -> None:
        self.tree, self.rows, self.held, self.wanted, self.active = tree, rows, held, wanted, active
        self.counted = available  # the resources that are not exhausted: they determine shares
        self.available = np.flatnonzero(available)
        self.width = len(available)
        self.base = tree.totals(rows[:, : self.width] * held[:, None])
        # The capacity that is left. A phase of subtrees cannot see the rest of the tree, so its caller passes this in.
        self.room = np.maximum(1 - self.base[0], 0.0) * (1 + BEYOND) if room is None else room
        self.within = np.where(available, self.room, np.inf)  # how far paths are followed
        self.measure = ShareMeasure(tree, self.base, available)
        self.limited = limited
        self.paths: dict[int, GrowthPaths] = {}  # by depth
        needs = rows[:, : self.width]
        fits = np.divide(self.room, needs, out=np.full(needs.shape, np.inf), where=needs > 0)
        self.most = np.minimum(wanted, held + fits.min(axis=1))
        if limited is not None:
            self.most = limited.within_caps(held, self.most)

    def run(self) -> tuple[FloatArray, BoolArray]:
        """The holding of each leaf at the end of the phase, and the resources that are exhausted then."""
        leaves = self._leaves()
        rough = self.limited is None and len(leaves.of) > MANY
        near = self._in_reach(leaves) if rough else leaves
        end = self._follow(near)
        if rough and not self._reaches(near, leaves, end):
            end = self._follow(leaves)
        low, high = self._holdings(end.before), self._holdings(end.after)
        return low + end.way * (high - low), end.used_up

    def _follow(self, leaves: Curves) -> _End:
        """Follow the curves of the leaves to the end of the phase."""
        self._climb(leaves, 0)
        before, after, way, used_up = self._end(self.paths[0])
        return _End(self._at_root(before), self._at_root(after), way, used_up)

    def _in_reach(self, leaves: Curves) -> Curves:
        """The curves as far as they are likely to be followed, estimated by a coarse pass over every few points.

        When demand far exceeds capacity, most points lie beyond the end of the phase.
        """
        there = self._follow(thinned(leaves, ROUGH)).after
        node, class_ = np.divmod(leaves.of, self.tree.classes)
        return cut_off(leaves, np.where(there.turn[node] == class_, AHEAD * there.level[node], np.inf))

    def _reaches(self, near: Curves, leaves: Curves, end: _End) -> bool:
        """Whether the phase ended before any of the curves that were cut off."""
        last, full = np.flatnonzero(run_ends(near.of)), np.flatnonzero(run_ends(leaves.of))
        cut = near.place.level[last] < leaves.place.level[full]
        node, class_ = np.divmod(near.of[last], self.tree.classes)
        turn, level = end.after.turn, end.after.level
        passed = (turn[node] > class_) | ((turn[node] == class_) & (level[node] >= near.place.level[last]))
        return not (cut & passed).any()

    # --- bottom-up: paths -------------------------------------------------------------------------------------

    def _leaves(self) -> Curves:
        """What the active leaves of each parent and class receive together, as a function of their level."""
        tree, active = self.tree, self.active
        return leaf_curves(
            tree.leaf_parent[active] * tree.classes + tree.leaf_class[active],
            tree.leaf_weight[active],
            self.held[active],
            self.most[active],
            self.rows.take(active, axis=0),
        )

    def _climb(self, leaves: Curves, top: int) -> None:
        """The paths of all growing nodes, depth by depth, up to this one."""
        tree = self.tree
        self.paths = {}
        for d in reversed(range(top, len(tree.depths))):
            depth = tree.depths[d]
            a, b = np.searchsorted(leaves.of, [depth.start * tree.classes, depth.stop * tree.classes])
            here = Curves(leaves.of[a:b], leaves.place.take(np.arange(a, b)), leaves.rows[a:b])
            if self.paths:
                below = self.paths[d + 1]
                self.paths[d] = self._paths(d, sum_children(tree, here, below, self.measure.shares(below)))
            elif a < b:
                self.paths[d] = self._paths(d, here)

    def _paths(self, d: int, total: Curves) -> GrowthPaths:
        """Convert the sums over children, per class, into the paths of their parents."""
        paths, later = paths_within(total, self.tree.classes, self.within), None
        if self.limited is not None:
            paths, later = self._limit(d, paths, self.limited)
        paths = self.measure.add_crossings(paths)
        return paths if later is None else joined(paths, later, d, self.tree.classes)

    # --- limits -----------------------------------------------------------------------------------------------

    def _limit(self, d: int, paths: GrowthPaths, limited: Limited) -> tuple[GrowthPaths, SolverPhase | None]:
        """The paths up to their limits, converted to claims; and the phase that continues them."""
        later = None
        if limited.binds_at(self.tree.depths[d]):
            stops = limited.stops(paths)
            if len(stops.after):
                later = self._go_on(d, paths, stops, limited)
                paths = cut(paths, stops)
        return limited.in_claims(paths), later

    def _go_on(self, d: int, paths: GrowthPaths, stops: Stops, limited: Limited) -> SolverPhase | None:
        """A phase for the leaves below the limited nodes that the limit does not freeze; None if it freezes all."""
        stops = stops.take(np.flatnonzero(limited.partly(paths.node[stops.after], stops.column)))
        if len(stops.after) == 0:
            return None
        nodes = paths.node[stops.after]
        head = self.tree.head_of_leaves(nodes)
        below = np.flatnonzero(head >= 0)
        low, high = (
            self._holdings(self._at(d, nodes, paths.turn[point], paths.inner.take(point)))[below]
            for point in (stops.before, stops.after)
        )
        held = self.held.copy()
        held[below] = low + stops.way[head[below]] * (high - low)
        closed = limited.closed.copy()
        closed[nodes, stops.column] = True
        given = self.rows[:, : self.width] * held[:, None]
        standing = limited.restraint.standing(given, closed, limited.standing, d)
        active = below[(held[below] < self.wanted[below] * (1 - FULL)) & ~standing.frozen[below]]
        if len(active) == 0:
            return None
        going_on = Limited(limited.restraint, standing, closed, self.rows, active)
        later = SolverPhase(self.tree, self.rows, held, self.wanted, active, self.counted, going_on, self.room)
        later._climb(later._leaves(), d)
        return later

    # --- the end ----------------------------------------------------------------------------------------------

    def _end(self, root: GrowthPaths) -> tuple[int, int, float, BoolArray]:
        """Where the root's path first exhausts a resource: two points, the fraction between, and the resource."""
        used = self.base[0] + root.rows[:, : self.width] if self.limited is None else self.limited.used(self.base, root)
        end = (len(used) - 1, 1.0)
        for j in self.available:
            column = np.maximum.accumulate(used[:, j])
            # A point that rounding left just below may precede a halt, in which other leaves would be served first.
            k = int(np.searchsorted(column, 1 - FULL))
            if k < len(column):
                end = min(end, (k, min(float((1 - column[k - 1]) / (column[k] - column[k - 1])), 1.0)))
        after, way = end
        before = max(after - 1, 0)
        there = used[before] + way * (used[after] - used[before])
        used_up = np.zeros(len(there), dtype=bool)
        used_up[self.available] = there[self.available] >= 1 - FULL
        return before, after, way, used_up

    # --- top-down: the positions of all nodes -------------------------------------------------------------------

    def _at_root(self, point: int) -> _Spot:
        """The positions of all nodes when the root is at this point of its path."""
        where = np.array([point])
        return self._between(0, self.paths[0].node[:1], where, where, np.zeros(1))

    def _between(self, d: int, node: IntArray, a: IntArray, b: IntArray, way: FloatArray) -> _Spot:
        """The positions of all nodes below these, which are at the fraction ``way`` between points of their paths."""
        spot = self._nowhere()
        self._put(spot, d, node, a, b, way)
        return self._descend(spot, d)

    def _at(self, d: int, node: IntArray, turn: IntArray, place: CurvePoint) -> _Spot:
        """The positions of all nodes below these, given the position of their children."""
        spot = self._nowhere()
        spot.turn[node], spot.level[node], spot.sliver[node] = turn, place.level, place.sliver
        return self._descend(spot, d)

    def _nowhere(self) -> _Spot:
        count = len(self.tree.parent)
        level, sliver = np.zeros((2, count))
        return _Spot(np.zeros(count, dtype=np.int64), level, sliver, np.zeros(count, dtype=bool))

    def _descend(self, spot: _Spot, d: int) -> _Spot:
        """Derive the positions of the nodes below from those of this depth."""
        while (here := self.paths.get(d := d + 1)) is not None:
            if spot.later or here.later is not None:
                self._put(spot, d, *spot.around(self.tree, here))
            else:
                spot.descend(self.tree, here)
        return spot

    def _put(self, spot: _Spot, d: int, node: IntArray, a: IntArray, b: IntArray, way: FloatArray) -> None:
        """Record the positions of nodes that are at the fraction ``way`` between these points of their paths."""
        here = self.paths[d]
        a, b, way = spot.put(here, node, a, b, way)
        if spot.later:
            spot.away[node] = spot.away[self.tree.parent[node]]
        if here.later is not None and here.number is not None:
            beyond = np.flatnonzero((here.turn[a] >= self.tree.classes) & ~spot.away[node])
            if len(beyond):
                points = here.number[a[beyond]], here.number[b[beyond]], way[beyond]
                spot.later.append((here.later, d, node[beyond], points))
                spot.away[node[beyond]] = True

    def _holdings(self, spot: _Spot) -> FloatArray:
        """The holding of each leaf, given the position of its parent."""
        tree, active = self.tree, self.active
        above = tree.leaf_parent[active]
        held, most = self.held[active], self.most[active]
        grown = np.clip(spot.level[above] * tree.leaf_weight[active], held, most)
        state = np.sign(spot.turn[above] - tree.leaf_class[active])
        result = self.held.copy()
        result[active] = np.choose(state + 1, [held, grown, most])  # to come, growing, done
        for later, d, node, points in spot.later:
            below = np.flatnonzero(self.tree.head_of_leaves(node) >= 0)
            result[below] = later._holdings(later._between(d, node, *points))[below]
        return result
