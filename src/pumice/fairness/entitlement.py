"""What every leaf of the share tree is entitled to: the divisible static H-DRF target, without simulation.

The rule as a story: start from zero; again and again walk from the root to the child with the smallest
weighted share that can still be served, down to a leaf, and give that leaf a drop. A node holds the sum of
what its leaves hold; its share is the largest fraction it holds of any resource that is not used up, over
its weight. Whoever needs a resource that is used up is frozen. Stop when nobody can be served.

The same, computed. As long as no further resource is used up, what the children of a node hold depends only
on the level to which they have risen together. So each node has a *path*, piecewise linear: what it has
been given, by its children's level. It is the sum of the children's own paths; and from what the node holds
at a point follows its share there, which is the level that its parent sees. Paths are made bottom-up. On
the root's path the first point is found where a resource is used up; top-down that gives each node its
place on its path, and each leaf what it holds. Those who need that resource freeze, and the next phase goes
on from there: at most one phase for each resource.

A share can stand still while its node is served: the resource that makes it is held by leaves that are
satisfied or frozen, and others below catch up. The level alone does not tell then how far the node has
come; a second coordinate does, the *sliver*: the raw dominant share handed out below the node since its
share came to a halt. All siblings that halt at one level go through their slivers together, the others
wait. So ties are broken by equal drops.

An example, with 10 cpu, 10 mem, tasks of one unit, and weights in brackets:

    root -- A (1) -- c (3): cpu, at most 3 tasks
         |        `- m (1): mem
         `- B (1) -- k (1): mem

    level of A and B   sliver   level of c and m   A holds cpu, mem   B holds mem   mem in all
    0                  0        0                  0    0             0             0
    0.3                0        0.1                0.3  0.1           0.3           0.4
    0.3                0.2      0.3                0.3  0.3           0.3           0.6
    0.5                0        0.5                0.3  0.5           0.5           1

c rises three times as fast as m and is satisfied at 0.3, when m has 0.1. Now only m is served below A, and
A's share stands at 0.3 until m has caught up; B, no higher and able to move on, waits. From there A and B
rise together until memory is used up: c, m and k are entitled to 3, 5 and 5 tasks.

*Classes.* Leaves of one parent with different ranks are served one after another: the next when nobody of
the one before can be. A parent's path is then the paths of its classes end to end, each from its own level
zero. Inner nodes beside such leaves belong to the first class that wants anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.fairness.polyline import (
    BoolArray,
    Curves,
    FloatArray,
    IntArray,
    Place,
    add_up,
    crossings,
    cut_off,
    leaf_curves,
    locate,
    numbered,
    place_between,
    run_ends,
    run_starts,
    running_total,
    start_of_run,
    thinned,
)

FULL = 1e-13  # relative: a resource, or a demand, with no more than this left is used up, or satisfied
MANY = 20_000  # points of leaves: with more, a rough first pass pays
ROUGH = 8  # it takes every so manieth point of a curve,
AHEAD = 1.3  # and curves are followed so much further than it came
BEYOND = 1e-9  # relative: how far past the end paths are followed, so that they are sure to reach it


def solve(
    parent: IntArray,
    weight: FloatArray,
    leaf: IntArray,
    direction: FloatArray,
    demand: FloatArray,
    rank: IntArray | None = None,
) -> FloatArray:
    """The tasks that each leaf is entitled to, as real numbers.

    parent, weight: of every node; parents come before their children, the root has parent -1. leaf: which
    nodes are leaves. Of each leaf, direction: one task's request as fractions of capacity; demand: the most
    tasks, may be inf; rank: its class among the leaves of its parent, smaller first. A leaf that asks for
    nothing gets its demand.
    """
    target = demand.astype(np.float64)
    wanting = np.flatnonzero((target > 0) & direction.any(axis=1))
    direction, demand = direction[wanting], target[wanting]
    if _fits(direction, demand):
        return target
    if leaf[0] == 0:  # nothing but a root that is a leaf
        parent, weight, leaf = np.array([-1, 0]), np.ones(2), np.array([1])
    ranks = np.zeros(len(leaf), dtype=np.int64) if rank is None else rank
    tree, order = _plant(parent, weight, leaf, wanting, ranks[wanting])
    target[wanting[order]] = _fill(tree, direction[order], demand[order])
    return target


def _fits(direction: FloatArray, demand: FloatArray) -> bool:
    """Whether capacity holds the whole demand, so that there is nothing to share out."""
    return bool(np.isfinite(demand).all() and (demand @ direction <= 1).all())


@dataclass(frozen=True, slots=True)
class _Tree:
    """The inner nodes, breadth first, and the leaves that want something, by parent and class."""

    parent: IntArray
    weight: FloatArray
    depths: list[slice]  # the nodes of each depth
    leaf_parent: IntArray
    leaf_weight: FloatArray
    leaf_class: IntArray  # 0, 1, ... inside its parent
    classes: int


def _plant(
    parent: IntArray, weight: FloatArray, leaf: IntArray, wanting: IntArray, rank: IntArray
) -> tuple[_Tree, IntArray]:
    """The tree, and the order in which it has the wanting leaves."""
    inner = np.ones(len(parent), dtype=bool)
    inner[leaf] = False
    nodes, depths = _breadth_first(parent, np.flatnonzero(inner))
    number = np.full(len(parent) + 1, -1, dtype=np.int64)  # the last entry is what parent -1 finds
    number[nodes] = np.arange(len(nodes))
    above = number[parent[leaf[wanting]]]
    order = np.lexsort((rank, above))
    above, rank = above[order], rank[order]
    first = run_starts(above)
    count = numbered(first | run_starts(rank))
    nth = count - count[start_of_run(first)]
    tree = _Tree(
        parent=number[parent[nodes]],
        weight=weight[nodes].astype(np.float64),
        depths=depths,
        leaf_parent=above,
        leaf_weight=weight[leaf[wanting[order]]].astype(np.float64),
        leaf_class=nth,
        classes=int(nth.max()) + 1,
    )
    return tree, order


def _breadth_first(parent: IntArray, inner: IntArray) -> tuple[IntArray, list[slice]]:
    """The inner nodes by depth, and there in the order of their parents; and the part of each depth."""
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


def _fill(tree: _Tree, direction: FloatArray, demand: FloatArray) -> FloatArray:
    """The tasks of each leaf: hand out capacity, phase by phase, until nobody can be served."""
    dominant = direction.max(axis=1)
    rows = np.column_stack([direction / dominant[:, None], np.ones(len(dominant))])
    wanted = demand * dominant
    held = np.zeros(len(dominant))
    available = np.ones(direction.shape[1], dtype=bool)
    while True:
        hungry = held < wanted * (1 - FULL)
        frozen = (direction[:, ~available] > 0).any(axis=1)
        active = np.flatnonzero(hungry & ~frozen)
        if len(active) == 0:
            return np.where(hungry, held / dominant, demand)
        held, used_up = _Phase(tree, rows, held, wanted, active, available).run()
        if not used_up.any():  # then all who could be served are satisfied
            held[active] = wanted[active]
        available &= ~used_up


@dataclass(slots=True)
class _Paths:
    """The paths of the growing nodes of one depth, laid end to end: a point for each entry."""

    node: IntArray
    turn: IntArray  # the class of children that grow there
    inner: Place  # where these children are
    rows: FloatArray  # what the node has been given
    outer: Place | None = None  # where the node is, seen from its siblings; the root has none


@dataclass(frozen=True, slots=True)
class _End:
    """Where a phase ends: between two points of the root's path; each node's class that grows, and its level."""

    before: tuple[IntArray, FloatArray]
    after: tuple[IntArray, FloatArray]
    way: float
    used_up: BoolArray


class _Phase:
    """All that happens from one resource's end to the next one's."""

    def __init__(
        self,
        tree: _Tree,
        rows: FloatArray,
        held: FloatArray,
        wanted: FloatArray,
        active: IntArray,
        available: BoolArray,
    ) -> None:
        self.tree, self.rows, self.held, self.active = tree, rows, held, active
        self.available = np.flatnonzero(available)  # the resources that are not used up
        self.base = self._totals()
        self.room = (1 - self.base[0, self.available]) * (1 + BEYOND)
        needs = rows[:, self.available]
        fits = np.divide(self.room, needs, out=np.full(needs.shape, np.inf), where=needs > 0)
        self.most = np.minimum(wanted, held + fits.min(axis=1))

    def run(self) -> tuple[FloatArray, BoolArray]:
        """What each leaf holds at the end of the phase, and which resources are used up then."""
        leaves = self._leaves()
        near = self._in_reach(leaves) if len(leaves.of) > MANY else leaves
        end = self._follow(near)
        if not self._reaches(near, leaves, end):
            end = self._follow(leaves)
        low, high = self._holdings(*end.before), self._holdings(*end.after)
        return low + end.way * (high - low), end.used_up

    def _follow(self, leaves: Curves) -> _End:
        """From the curves of leaves to the end of the phase."""
        paths = self._climb(leaves)
        before, after, way, used_up = self._end(paths[0])
        return _End(self._descend(paths, before), self._descend(paths, after), way, used_up)

    def _in_reach(self, leaves: Curves) -> Curves:
        """The curves as far as they are likely to be followed, by a rough first pass over every few points.

        When much more is wanted than there is, most points lie beyond the end of the phase.
        """
        turn, level = self._follow(thinned(leaves, ROUGH)).after
        node, class_ = np.divmod(leaves.of, self.tree.classes)
        return cut_off(leaves, np.where(turn[node] == class_, AHEAD * level[node], np.inf))

    def _reaches(self, near: Curves, leaves: Curves, end: _End) -> bool:
        """Whether the phase ended before any of the curves that were cut off."""
        last, full = np.flatnonzero(run_ends(near.of)), np.flatnonzero(run_ends(leaves.of))
        cut = near.place.level[last] < leaves.place.level[full]
        node, class_ = np.divmod(near.of[last], self.tree.classes)
        turn, level = end.after
        passed = (turn[node] > class_) | ((turn[node] == class_) & (level[node] >= near.place.level[last]))
        return not (cut & passed).any()

    def _totals(self) -> FloatArray:
        """What each inner node holds as the phase begins."""
        tree, count = self.tree, len(self.tree.parent)
        given = self.rows[:, :-1] * self.held[:, None]
        total: FloatArray = np.column_stack([np.bincount(tree.leaf_parent, column, count) for column in given.T])
        for depth in reversed(tree.depths[1:]):
            np.add.at(total, tree.parent[depth], total[depth])
        return total

    def _leaves(self) -> Curves:
        """What the active leaves of each parent and class are given together, by their level."""
        tree, active = self.tree, self.active
        return leaf_curves(
            tree.leaf_parent[active] * tree.classes + tree.leaf_class[active],
            tree.leaf_weight[active],
            self.held[active],
            self.most[active],
            self.rows.take(active, axis=0),
        )

    def _climb(self, leaves: Curves) -> list[_Paths]:
        """The paths of all growing nodes, depth by depth, the root's first."""
        tree = self.tree
        paths: list[_Paths] = []
        for depth in reversed(tree.depths):
            a, b = np.searchsorted(leaves.of, [depth.start * tree.classes, depth.stop * tree.classes])
            here = Curves(leaves.of[a:b], leaves.place.take(np.arange(a, b)), leaves.rows[a:b])
            if paths:
                paths.append(self._paths(self._sum(here, paths[-1])))
            elif a < b:
                paths.append(self._paths(here))
        return paths[::-1]

    def _sum(self, leaves: Curves, below: _Paths) -> Curves:
        """Leaves and inner nodes of the same parents added up, class by class."""
        tree, count = self.tree, len(leaves.of)
        group = np.concatenate([leaves.of, tree.parent[below.node] * tree.classes])
        order = np.argsort(group, kind="stable")
        curve = np.concatenate([leaves.of, below.node + len(tree.parent) * tree.classes])
        level = np.concatenate([leaves.place.level, self._share(below)])
        rows = np.concatenate([leaves.rows, below.rows])
        total, at = add_up(curve[order], group[order], level[order], rows.take(order, axis=0))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        below.outer = at.take(back[count:])
        return total

    def _share(self, paths: _Paths) -> FloatArray:
        """The weighted share of the node at each point."""
        top: FloatArray = self._tops(paths.node, paths.rows).max(axis=1)
        return top / self.tree.weight.take(paths.node)

    def _tops(self, node: IntArray, rows: FloatArray) -> FloatArray:
        """What a node holds in all, of the resources that make its share."""
        return self.base[:, self.available].take(node, axis=0) + rows[:, self.available]

    def _paths(self, total: Curves) -> _Paths:
        """From the sums over children, class by class, to the paths of their parents."""
        node, turn = np.divmod(total.of, self.tree.classes)
        rows = self._one_after_another(node, total)
        beyond = (rows[:, self.available] > self.room).any(axis=1)
        kept = run_starts(node)
        kept[1:] |= ~beyond[:-1]
        keep = np.flatnonzero(kept)
        of, place, rows = total.of.take(keep), total.place.take(keep), rows.take(keep, axis=0)
        node, turn = node.take(keep), turn.take(keep)
        # The share must be linear from point to point: add those where its resource changes.
        a, way = crossings(of, self._tops(node, rows))
        b = a + 1
        new = place_between(place.take(a), place.take(b), way)
        return _Paths(
            np.insert(node, b, node[a]),
            np.insert(turn, b, turn[a]),
            Place(np.insert(place.level, b, new.level), np.insert(place.sliver, b, new.sliver)),
            np.insert(rows, b, rows[a] + way[:, None] * (rows[b] - rows[a]), axis=0),
        )

    def _one_after_another(self, node: IntArray, total: Curves) -> FloatArray:
        """What a node has been given at each point, with all that its earlier classes got."""
        if self.tree.classes == 1:
            return total.rows
        last = np.flatnonzero(run_ends(total.of))
        done = running_total(total.rows.take(last, axis=0), node[last])
        earlier = np.zeros_like(done)
        earlier[1:] = done[:-1]
        earlier[run_starts(node[last])] = 0.0
        return total.rows + earlier.take(numbered(run_starts(total.of)), axis=0)

    def _end(self, root: _Paths) -> tuple[int, int, float, BoolArray]:
        """Where a resource is first used up: two points of the root's path, the way between; and which."""
        used = self.base[0] + root.rows[:, :-1]
        end = (len(used) - 1, 1.0)
        for j in self.available:
            column = np.maximum.accumulate(used[:, j])
            k = int(np.searchsorted(column, 1.0))
            if k < len(column):
                end = min(end, (k, float((1 - column[k - 1]) / (column[k] - column[k - 1]))))
        after, way = end
        before = max(after - 1, 0)
        there = used[before] + way * (used[after] - used[before])
        used_up = np.zeros(len(there), dtype=bool)
        used_up[self.available] = there[self.available] >= 1 - FULL
        return before, after, way, used_up

    def _descend(self, paths: list[_Paths], point: int) -> tuple[IntArray, FloatArray]:
        """Which class of each node grows, and its level, when the root is at this point of its path."""
        tree = self.tree
        turn = np.zeros(len(tree.parent), dtype=np.int64)
        level, sliver = np.zeros((2, len(tree.parent)))
        for here in paths:
            if here.outer is None:
                node, a, b, way = here.node[:1], np.array([point]), np.array([point]), np.zeros(1)
            else:
                start = np.flatnonzero(run_starts(here.node))
                node = here.node[start]
                above = tree.parent[node]
                asked = Place(np.where(turn[above] > 0, np.inf, level[above]), sliver[above])
                a, b, way = locate(asked, start, here.outer)
            # Rounding may leave a gap between the end of one class and the start of the next: there is nothing in it.
            at_b = (way == 1) | (way > 0) & (here.turn[a] != here.turn[b])
            a, way = np.where(at_b, b, a), np.where(at_b, 0.0, way)
            place = place_between(here.inner.take(a), here.inner.take(b), way)
            turn[node], level[node], sliver[node] = here.turn[a], place.level, place.sliver
        return turn, level

    def _holdings(self, turn: IntArray, level: FloatArray) -> FloatArray:
        """What each leaf holds when its parent has come this far."""
        tree, active = self.tree, self.active
        above = tree.leaf_parent[active]
        held, most = self.held[active], self.most[active]
        grown = np.clip(level[above] * tree.leaf_weight[active], held, most)
        state = np.sign(turn[above] - tree.leaf_class[active])
        result = self.held.copy()
        result[active] = np.choose(state + 1, [held, grown, most])  # to come, growing, done
        return result
