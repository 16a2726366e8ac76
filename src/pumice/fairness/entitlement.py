"""The divisible static H-DRF target of every leaf, computed directly.

TODO docstring
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.fairness.polyline import (
    BoolArray,
    FloatArray,
    IntArray,
    Place,
    Points,
    add_up,
    crossings,
    fraction,
    leaf_curves,
    run_starts,
    running_total,
)

FULL = 1e-13  # a resource with no more than this left of it is used up
ROOM = 1e-9  # how far beyond what is left the paths are followed, so that they are sure to reach the end


def solve(
    parent: IntArray,
    weight: FloatArray,
    leaf: IntArray,
    direction: FloatArray,
    demand: FloatArray,
    rank: IntArray | None = None,
) -> FloatArray:
    """The tasks that each leaf is entitled to under static H-DRF, as real numbers."""
    target = demand.astype(np.float64)
    wanting = np.flatnonzero((demand > 0) & direction.any(axis=1))
    if len(wanting) == 0:
        return target
    direction, demand = direction[wanting], target[wanting]
    if _fits(direction, demand):
        return target
    rank = np.zeros(len(wanting), dtype=np.int64) if rank is None else rank[wanting]
    if leaf[0] == 0:  # the tree is a single leaf: give it a root
        parent, weight, leaf = np.array([-1, 0]), np.array([1.0, 1.0]), np.array([1])
    tree, order = _Tree.build(parent, weight, leaf, leaf[wanting], rank)
    target[wanting[order]] = _fill(tree, direction[order], demand[order])
    return target


def _fits(direction: FloatArray, demand: FloatArray) -> bool:
    """Whether the whole demand fits in capacity, so that there is nothing to share out."""
    return bool(np.isfinite(demand).all() and (demand @ direction <= 1).all())


@dataclass(frozen=True, slots=True)
class _Tree:
    """The inner nodes in breadth-first order, and the leaves that want something by parent and class."""

    parent: IntArray
    weight: FloatArray
    depths: list[slice]  # the nodes of each depth
    leaf_parent: IntArray
    leaf_weight: FloatArray
    leaf_class: IntArray  # 0, 1, ... inside its parent; inner nodes belong to the first class
    classes: int

    @staticmethod
    def build(
        parent: IntArray, weight: FloatArray, leaf: IntArray, wanting: IntArray, rank: IntArray
    ) -> tuple[_Tree, IntArray]:
        """The tree, and the order in which it holds the wanting leaves."""
        inner = np.ones(len(parent), dtype=bool)
        inner[leaf] = False
        depth = np.zeros(len(parent), dtype=np.int64)
        above = np.where(inner, parent, -1)
        while (above >= 0).any():
            depth += above >= 0
            above = np.where(above >= 0, parent.take(above), -1)
        nodes = np.flatnonzero(inner)
        nodes = nodes[np.argsort(depth[nodes], kind="stable")]
        number = np.full(len(parent), -1, dtype=np.int64)
        number[nodes] = np.arange(len(nodes))
        bounds = np.append(np.flatnonzero(run_starts(depth[nodes])), len(nodes)).tolist()
        of = number[parent[wanting]]
        order = np.lexsort((rank, of))
        of, rank = of[order], rank[order]
        first = run_starts(of)
        count = np.cumsum(first | run_starts(rank))
        nth = count - count[np.maximum.accumulate(np.where(first, np.arange(len(of)), 0))]
        tree = _Tree(
            parent=np.where(parent[nodes] >= 0, number[parent[nodes]], -1),
            weight=weight[nodes].astype(np.float64),
            depths=[slice(a, b) for a, b in zip(bounds, bounds[1:], strict=False)],
            leaf_parent=of,
            leaf_weight=weight[wanting[order]].astype(np.float64),
            leaf_class=nth,
            classes=int(nth.max()) + 1,
        )
        return tree, order


def _fill(tree: _Tree, direction: FloatArray, demand: FloatArray) -> FloatArray:
    """Hand out the capacity, one phase for each resource that is used up; the tasks of each leaf."""
    dominant = direction.max(axis=1)
    rows = np.column_stack([direction / dominant[:, None], np.ones(len(dominant))])
    wanted = demand * dominant
    held = np.zeros(len(dominant))
    open_ = np.ones(direction.shape[1], dtype=bool)
    while True:
        needs_closed = (rows[:, :-1][:, ~open_] > 0).any(axis=1)
        active = np.flatnonzero((held < wanted * (1 - FULL)) & ~needs_closed)
        if len(active) == 0:
            break
        phase = _Phase(tree, rows, held, wanted, active, open_)
        held, used_up = phase.run()
        if not used_up.any():
            break
        open_ = open_ & ~used_up
    return np.where(held >= wanted * (1 - FULL), demand, held / dominant)


@dataclass(slots=True)
class _Paths:
    """The paths of the growing nodes of one depth, laid end to end."""

    node: IntArray
    inner: Points  # label: the class that is growing; place: where the children of that class stand
    outer: Place | None = None  # where the points lie for the siblings


class _Phase:
    """From here to where the next resource is used up."""

    def __init__(
        self,
        tree: _Tree,
        rows: FloatArray,
        held: FloatArray,
        wanted: FloatArray,
        active: IntArray,
        open_: BoolArray,
    ) -> None:
        self.tree, self.rows, self.held, self.active, self.open = tree, rows, held, active, open_
        self.base = self._totals()
        self.free = 1 - self.base[0, open_]
        self.limit = np.where(open_, (1-self.base[0]) * (1 + ROOM), np.inf)
        shape = rows[:, :-1][:, open_]
        with np.errstate(divide="ignore"):
            room = np.where(shape > 0, self.free / shape, np.inf).min(axis=1)
        self.most = np.minimum(wanted, held + room * (1 + ROOM))

    def _totals(self) -> FloatArray:
        """What each inner node holds as the phase begins, by resource."""
        tree, count = self.tree, len(self.tree.parent)
        given = self.rows[:, :-1] * self.held[:, None]
        total = np.column_stack([np.bincount(tree.leaf_parent, column, count) for column in given.T])
        for depth in reversed(tree.depths[1:]):
            first = tree.depths[0].start
            above = tree.parent[depth]
            for j in range(total.shape[1]):
                total[:, j] += np.bincount(above, total[depth, j], count)
            assert first == 0
        return total

    def run(self) -> tuple[FloatArray, BoolArray]:
        """What each leaf holds when the phase ends, and which resources are used up by then."""
        paths = self._climb()
        used = self.base[0] + paths[0].inner.rows[:, :-1]
        a, b, way, used_up = self._end(used)
        low = self._descend(paths, a)
        high = low if a == b else self._descend(paths, b)
        return low + way * (high - low), used_up

    def _end(self, used: FloatArray) -> tuple[int, int, float, BoolArray]:
        """The first place on the root's path where an open resource is used up: two points and the way between."""
        best = (len(used) - 1, 1.0)
        for j in np.flatnonzero(self.open):
            column = np.maximum.accumulate(used[:, j])
            k = int(np.searchsorted(column, 1.0))
            if k < len(column):
                low = column[k - 1] if k else 1.0
                best = min(best, (k, float((1 - low) / (column[k] - low)) if column[k] > low else 0.0))
        k, way = best
        a = max(k - 1, 0)
        there = used[a] + way * (used[k] - used[a])
        return a, k, way, self.open & (there >= 1 - FULL)

    def _climb(self) -> list[_Paths]:
        """The paths of all growing nodes by depth, from the deepest up."""
        tree, act = self.tree, self.active
        label = tree.leaf_parent[act] * tree.classes + tree.leaf_class[act]
        curves = leaf_curves(label, tree.leaf_weight[act], self.held[act], self.most[act], self.rows[act])
        paths: list[_Paths] = []
        for depth in reversed(tree.depths):
            lo, hi = np.searchsorted(curves.label, [depth.start * tree.classes, depth.stop * tree.classes])
            group = curves.label[lo:hi]
            curve = np.cumsum(run_starts(group)) - 1
            level, rows = curves.place.level[lo:hi], curves.rows[lo:hi]
            below = paths[-1] if paths else None
            if below is not None:
                group = np.concatenate([group, tree.parent[below.node] * tree.classes])
                curve = np.concatenate([curve, below.node + len(group)])
                level = np.concatenate([level, self._share(below)])
                rows = np.concatenate([rows, below.inner.rows])
            if len(group) == 0:
                continue
            order = np.argsort(group, kind="stable")
            summed, at = add_up(curve[order], group[order], level[order], rows.take(order, axis=0), self.limit)
            if below is not None:
                back = np.empty_like(order)
                back[order] = np.arange(len(order))
                below.outer = at.take(back[hi - lo :])
            paths.append(self._path(summed))
        return paths[::-1]

    def _path(self, summed: Points) -> _Paths:
        """The paths of nodes from the sums over their children: class after class, with a point where the dominant resource changes."""
        node, order = np.divmod(summed.label, self.tree.classes)
        rows = summed.rows
        if order.any():
            last = np.flatnonzero(np.append(run_starts(summed.label)[1:], True))
            done = running_total(rows[last], node[last])
            before = np.zeros_like(done)
            before[1:] = np.where(run_starts(node[last])[1:, None], 0.0, done[:-1])
            rows = rows + before.take(np.cumsum(run_starts(summed.label)) - 1, axis=0)
        beyond = (rows[:, :-1][:, self.open] > self.free * (1 + ROOM)).any(axis=1)
        keep = run_starts(node)
        keep[1:] |= ~beyond[:-1]
        kept = np.flatnonzero(keep)
        node, order, rows, place = node[kept], order[kept], rows.take(kept, axis=0), summed.place.take(kept)
        where, way = crossings(node, (self.base[:, self.open].take(node, axis=0) + rows[:, :-1][:, self.open]))
        if len(where):
            at = where + 1
            level = place.level[where] + way * (place.level[at] - place.level[where])
            halted = place.level[where] == place.level[at]
            sliver = np.where(halted, place.sliver[where] + way * (place.sliver[at] - place.sliver[where]), 0.0)
            row = rows[where] + way[:, None] * (rows[at] - rows[where])
            place = Place(np.insert(place.level, at, level), np.insert(place.sliver, at, sliver))
            rows = np.insert(rows, at, row, axis=0)
            node, order = np.insert(node, at, node[where]), np.insert(order, at, order[where])
        return _Paths(node, Points(order, place, rows))

    def _share(self, paths: _Paths) -> FloatArray:
        """The weighted share of the node at each point of its path, over the open resources."""
        held = self.base[:, self.open].take(paths.node, axis=0) + paths.inner.rows[:, :-1][:, self.open]
        return held.max(axis=1) / self.tree.weight.take(paths.node)

    def _descend(self, paths: list[_Paths], point: int) -> FloatArray:
        """What each leaf holds when the root is at this point of its path."""
        tree = self.tree
        count = len(tree.parent)
        klass = np.zeros(count, dtype=np.int64)
        level, sliver = np.zeros(count), np.zeros(count)
        for depth, here in enumerate(paths):
            start = np.flatnonzero(run_starts(here.node))
            stop = np.append(start[1:], len(here.node))
            node = here.node[start]
            if depth == 0:
                a = np.array([point])
                b, way = a, np.zeros(1)
            else:
                assert here.outer is not None
                above = tree.parent[node]
                asked = Place(np.where(klass[above] > 0, np.inf, level[above]), sliver[above])
                each = asked.take(np.repeat(np.arange(len(node)), stop - start))
                out = here.outer
                passed = (out.level < each.level) | ((out.level == each.level) & (out.sliver <= each.sliver))
                a = start + np.maximum(np.add.reduceat(passed.astype(np.int64), start) - 1, 0)
                b = np.minimum(a + 1, stop - 1)
                way = fraction(asked, out.take(a), out.take(b))
            inner = here.inner
            beyond = way > 0
            klass[node] = np.where(beyond, inner.label[b], inner.label[a])
            la, lb, sa, sb = (x[i] for x in (inner.place.level, inner.place.sliver) for i in (a, b))
            same = inner.label[a] == inner.label[b]
            level[node] = np.where(beyond & ~same, lb, np.minimum(la + way * (lb - la), np.maximum(la, lb)))
            sliver[node] = np.where(la == lb, sa + way * (sb - sa), np.where(beyond, np.where(way == 1, sb, 0.0), sa))
        held = self.held.copy()
        act = self.active
        of = tree.leaf_parent[act]
        mine = tree.leaf_class[act]
        grown = np.clip(level[of] * tree.leaf_weight[act], self.held[act], self.most[act])
        held[act] = np.where(mine < klass[of], self.most[act], np.where(mine == klass[of], grown, self.held[act]))
        return held
