"""The steps of a phase for all nodes of one depth: sum the children up, build the paths, find the positions.

Each function here has two forms with the same result: NumPy, which is the reference, and, where the engine is compiled,
one call of ``native_curves``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.engine.fairness.fluid_target import native_curves
from pumice.engine.fairness.fluid_target.flat_tree import FlatTree
from pumice.engine.fairness.fluid_target.growth_paths import GrowthPaths
from pumice.engine.fairness.fluid_target.native_curves import float_rows, floats, integers
from pumice.engine.fairness.fluid_target.polyline import (
    BoolArray,
    CurvePoint,
    Curves,
    FloatArray,
    IntArray,
    add_up,
    crossings,
    end_to_end,
    largest_column,
    locate,
    place_between,
    run_starts,
)


@dataclass(frozen=True, slots=True)
class ShareMeasure:
    """What determines the share of a node: its holdings of the resources that are not exhausted; for a job, of all."""

    tree: FlatTree
    base: FloatArray  # the holdings of each node when the phase began
    counted: BoolArray  # the resources that are not exhausted

    def shares(self, paths: GrowthPaths) -> FloatArray:
        """The weighted share of the node at each point."""
        tree = self.tree
        if native_curves.native is not None:
            return floats(
                native_curves.native.shares(paths.node, paths.rows, self.base, tree.is_job, tree.weight, self.counted)
            )
        return largest_column(self._amounts(paths)) / tree.weight.take(paths.node)

    def _amounts(self, paths: GrowthPaths) -> FloatArray:
        """The holdings of the node at each point; a resource that does not count for it is left out, or 0."""
        width, node = len(self.counted), paths.node
        if self.counted.all():
            return self.base.take(node, axis=0) + paths.rows[:, :width]
        is_job = self.tree.is_job.take(node)
        if not is_job.any():
            available = np.flatnonzero(self.counted)
            return self.base.take(available, axis=1).take(node, axis=0) + paths.rows.take(available, axis=1)
        amounts = self.base.take(node, axis=0) + paths.rows[:, :width]
        for j in np.flatnonzero(~self.counted):
            amounts[~is_job, j] = 0.0
        return amounts

    def add_crossings(self, paths: GrowthPaths) -> GrowthPaths:
        """The paths with a point more wherever another resource becomes dominant: in between, shares are linear."""
        if native_curves.native is not None:
            place, tree = paths.inner, self.tree
            made = native_curves.native.add_crossings(
                paths.node, paths.rows, paths.turn, place.level, place.sliver, self.base, tree.is_job, self.counted
            )
            return paths if made is None else _native_paths(made, paths.rows.shape[1])
        return paths.insert(*crossings(paths.node * self.tree.classes + paths.turn, self._amounts(paths)))


def sum_children(tree: FlatTree, leaves: Curves, below: GrowthPaths, share: FloatArray) -> Curves:
    """Add up leaves and inner nodes of the same parents, class by class; ``share`` is the level of the nodes' points.

    The positions of these points among all of the group are kept in ``below``.
    """
    if native_curves.native is not None:
        of, level, sliver, rows, *outer = native_curves.native.sum_children(
            *(leaves.of, leaves.place.level, leaves.rows, below.node, share, below.rows),
            *(tree.parent, tree.node_class, np.array([tree.classes])),
        )
        below.outer = CurvePoint(*map(floats, outer))
        return Curves(integers(of), CurvePoint(floats(level), floats(sliver)), float_rows(rows, leaves.rows.shape[1]))
    count = len(leaves.of)
    group = np.concatenate([leaves.of, tree.parent[below.node] * tree.classes + tree.node_class[below.node]])
    order = np.argsort(group, kind="stable")
    curve = np.concatenate([leaves.of, below.node + len(tree.parent) * tree.classes])
    level = np.concatenate([leaves.place.level, share])
    rows = np.concatenate([leaves.rows, below.rows])
    total, at = add_up(curve[order], group[order], level[order], rows.take(order, axis=0))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    below.outer = at.take(back[count:])
    return total


def paths_within(total: Curves, classes: int, room: FloatArray) -> GrowthPaths:
    """The sums over children, per class, as paths of their parents, up to the first point beyond the room."""
    if native_curves.native is not None:
        place = total.place
        made = native_curves.native.paths_within(
            total.of, place.level, place.sliver, total.rows, room, np.array([classes])
        )
        return _native_paths(made, total.rows.shape[1])
    node, turn = np.divmod(total.of, classes)
    rows = total.rows if classes == 1 else end_to_end(total, node)
    beyond = np.zeros(len(node), dtype=bool)
    for column, most in zip(rows.T, room, strict=False):
        beyond |= column > most
    kept = run_starts(node)
    kept[1:] |= ~beyond[:-1]
    keep = np.flatnonzero(kept)
    return GrowthPaths(node.take(keep), turn.take(keep), total.place.take(keep), rows.take(keep, axis=0))


def _native_paths(made: tuple[bytearray, bytearray, bytearray, bytearray, bytearray], width: int) -> GrowthPaths:
    node, turn, level, sliver, rows = made
    place = CurvePoint(floats(level), floats(sliver))
    return GrowthPaths(integers(node), integers(turn), place, float_rows(rows, width))


@dataclass(slots=True)
class NodePositions:
    """Positions of nodes: the class of children that grows, and its position."""

    turn: IntArray
    level: FloatArray
    sliver: FloatArray

    def put(
        self, here: GrowthPaths, node: IntArray, a: IntArray, b: IntArray, way: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Record the positions of nodes at the fraction ``way`` between two points, a and b, of their paths.

        Returns a, b and the fraction again, with a fraction below 1 and both points of one class.
        """
        # Rounding may leave a gap between the end of one class and the start of the next; the gap is empty.
        at_b = (way == 1) | (way > 0) & (here.turn[a] != here.turn[b])
        a, way = np.where(at_b, b, a), np.where(at_b, 0.0, way)
        # At the end of a class the next point starts the next class: its position is meaningless here.
        b = np.where(way == 0, a, b)
        place = place_between(here.inner.take(a), here.inner.take(b), way)
        self.turn[node], self.level[node], self.sliver[node] = here.turn[a], place.level, place.sliver
        return a, b, way

    def around(self, tree: FlatTree, here: GrowthPaths) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """The nodes of a depth, and their points around the positions of their parents."""
        start = np.flatnonzero(run_starts(here.node))
        node = here.node[start]
        above = tree.parent[node]
        state = np.sign(self.turn[above] - tree.node_class[node])  # its class is to come, grows, is done
        level = np.choose(state + 1, [np.full(len(node), -1.0), self.level[above], np.full(len(node), np.inf)])
        assert here.outer is not None
        return node, *locate(CurvePoint(level, self.sliver[above]), start, here.outer)

    def descend(self, tree: FlatTree, here: GrowthPaths) -> None:
        """Derive the positions of the nodes of a depth from those of their parents."""
        if native_curves.native is None:
            self.put(here, *self.around(tree, here))
            return
        inner, outer = here.inner, here.outer
        assert outer is not None
        native_curves.native.descend(
            *(self.turn, self.level, self.sliver, tree.parent, tree.node_class),
            *(here.node, here.turn, inner.level, inner.sliver, outer.level, outer.sliver),
        )
