"""Whole targets: how the divisible target becomes tasks that can be started (fairness.md 3, step 1).

Every job first gets the whole part of its target (nothing, if that is less than its gang). What these leave of
the cluster is handed out in units, at most one a job, each to the job that a walk by the largest part still
missing, (E - whole so far) / r, finds. Incumbents, who already hold more than their whole part, go first, as
long as something is missing on every level above them: nobody loses a place to rounding noise.

While units are handed out, what is missing only falls and able jobs only become fewer, so a node's key only gets
worse: a heap entry that is out of date is found out when it comes up, and put back where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace

from pumice.fairness.order import TIE
from pumice.fairness.tree import Entry, JobNode, Kind, ShareNode, ShareTree
from pumice.model.objects import Items


class _Stand:
    """Where a node stands in the hand-out: what is missing, and which resources able jobs below ask for."""

    __slots__ = ("able", "children", "count", "heap", "leaf", "missing", "node", "parent", "served", "unit")

    def __init__(self, node: ShareNode, parent: _Stand | None, missing: list[int], served: int) -> None:
        self.node = node
        self.parent = parent
        self.missing = missing
        self.served = served
        self.children: list[_Stand] = []
        self.count = [0] * len(missing)
        self.heap: list[Entry] = []
        self.leaf = node if isinstance(node, JobNode) else None
        self.unit: Items = ()
        self.able = False


def set_whole_targets(tree: ShareTree, capacity: list[int]) -> list[JobNode]:
    """Round every job's target to whole units; returns the jobs whose whole target changed."""
    changed = []
    pool = list(capacity)
    rounded: dict[JobNode, list[int]] = {}
    wanting: list[tuple[JobNode, Items]] = []
    for leaf in tree.jobs.values():
        counts = _whole_part(leaf)
        whole = rounded[leaf] = _vector(leaf, counts, tree.width)
        for j, amount in enumerate(whole):
            if amount:
                pool[j] -= amount
        leaf.incumbent = any(leaf.held[j] > whole[j] for j, _ in leaf.demand.direction)
        unit = _unit(leaf, counts)
        if unit:
            wanting.append((leaf, unit))
    wanting = [(leaf, unit) for leaf, unit in wanting if all(amount <= pool[j] for j, amount in unit)]
    if wanting:
        _HandOut(tree, capacity, pool, rounded).run(wanting)
    for leaf, whole in rounded.items():
        if whole != leaf.whole:
            leaf.whole = whole
            changed.append(leaf)
    return changed


def _whole_part(leaf: JobNode) -> list[int]:
    """Whole tasks of each part of the demand; none if together they are less than the gang."""
    demand = leaf.demand
    if demand.alike:
        counts = [int(leaf.target)]
    elif leaf.target >= 1.0:
        return [count for _, count in demand.parts]
    else:
        counts = [int(leaf.target * count + 1e-9) for _, count in demand.parts]
    return counts if sum(counts) >= leaf.gang else [0] * len(counts)


def _vector(leaf: JobNode, counts: list[int], width: int) -> list[int]:
    whole = [0] * width
    demand = leaf.demand
    if not demand.alike and leaf.target >= 1.0:
        for j, amount in demand.direction:  # a floor (minResources) above the sum of its tasks counts too
            whole[j] = amount
        return whole
    for (items, _), count in zip(demand.parts, counts, strict=True):
        if count:
            for j, amount in items:
                whole[j] += amount * count
    return whole


def _unit(leaf: JobNode, counts: list[int]) -> Items:
    """What one more unit asks for, counted from the whole part: its gang, or one task. () when it has all."""
    demand = leaf.demand
    if not demand.parts:
        return demand.direction if leaf.target < 1.0 else ()
    if not any(counts) and leaf.gang > 1:
        return demand.gang_items
    for (items, count), have in zip(demand.parts, counts, strict=True):
        if have < count:
            return items
    return ()


class _HandOut:
    def __init__(
        self, tree: ShareTree, capacity: list[int], pool: list[int], rounded: dict[JobNode, list[int]]
    ) -> None:
        self.capacity = capacity
        self.pool = pool
        self.rounded = rounded
        self.stands: dict[ShareNode, _Stand] = {}
        self.root = self._stand_tree(tree)

    def _stand_tree(self, tree: ShareTree) -> _Stand:
        """What is missing at every node, bottom-up, and who was served last while owed."""
        order = list(tree.root.walk())
        missing: dict[ShareNode, list[int]] = {}
        served: dict[ShareNode, int] = {}
        for node in reversed(order):
            if node.kind is Kind.JOB:
                assert isinstance(node, JobNode)
                whole = self.rounded[node]
                missing[node] = [e - w for e, w in zip(node.entitled, whole, strict=True)]
                served[node] = node.owed_starts[-1] if node.owed_starts else 0
                continue
            total, last = [0] * tree.width, 0
            for child in node.children.values():
                for j, amount in enumerate(missing[child]):
                    if amount:
                        total[j] += amount
                if served[child] > last:
                    last = served[child]
            missing[node], served[node] = total, last
        for node in order:
            parent = self.stands[node.parent] if node.parent is not None else None
            stand = self.stands[node] = _Stand(node, parent, missing[node], served[node])
            if parent is not None:
                parent.children.append(stand)
        return self.stands[tree.root]

    def run(self, wanting: list[tuple[JobNode, Items]]) -> None:
        for leaf, unit in wanting:
            self.stands[leaf].unit = unit
        incumbents = [self.stands[leaf] for leaf, _ in wanting if leaf.incumbent]
        got = self._pass(incumbents, only_missing=True)
        self._pass([self.stands[leaf] for leaf, _ in wanting if self.stands[leaf] not in got], only_missing=False)

    def _pass(self, takers: list[_Stand], *, only_missing: bool) -> set[_Stand]:
        """Hand out units until nobody can take one; returns who got one."""
        got: set[_Stand] = set()
        sizes = self._enter(takers)
        if only_missing:
            for stand in takers:
                if any(_nothing_missing(above, stand) for above in _path(stand)):
                    self._leave(stand)
        while True:
            self._drop_too_large(sizes)
            if not any(self.root.count):
                break
            stand = self.root
            while stand.leaf is None:
                stand = self._first(stand)
            got.add(stand)
            self._give(stand)
            self._leave(stand)
            if only_missing:
                for above in _path(stand):
                    if any(above.missing[j] <= 0 for j, _ in stand.unit):
                        for other in _able_below(above):
                            if _nothing_missing(above, other):
                                self._leave(other)
        return got

    def _enter(self, takers: Iterable[_Stand]) -> dict[int, list[tuple[int, int, list[_Stand]]]]:
        """Everybody takes part; returns, per resource, the sizes of units asked for (largest last)."""
        by_unit: dict[Items, list[_Stand]] = {}
        for stand in takers:
            stand.able = True
            by_unit.setdefault(stand.unit, []).append(stand)
            for above in _path(stand):
                for j, _ in stand.unit:
                    above.count[j] += 1
        for stand in takers:
            child = stand
            while child.parent is not None:
                # An entry may be pushed twice (by two jobs below): an equal entry is as good as the first.
                heappush(child.parent.heap, self._entry(child))
                child = child.parent
        sizes: dict[int, list[tuple[int, int, list[_Stand]]]] = {}
        for number, (unit, stands) in enumerate(by_unit.items()):
            for j, amount in unit:
                sizes.setdefault(j, []).append((amount, number, stands))
        for asked in sizes.values():
            asked.sort(key=lambda size: size[:2])
        return sizes

    def _drop_too_large(self, sizes: dict[int, list[tuple[int, int, list[_Stand]]]]) -> None:
        """Who asks for more than is left is able no longer."""
        for j, asked in sizes.items():
            while asked and asked[-1][0] > self.pool[j]:
                for stand in asked.pop()[2]:
                    self._leave(stand)

    def _leave(self, stand: _Stand) -> None:
        if stand.able:
            stand.able = False
            for above in _path(stand):
                for j, _ in stand.unit:
                    above.count[j] -= 1

    def _give(self, stand: _Stand) -> None:
        assert stand.leaf is not None
        whole = self.rounded[stand.leaf]
        for j, amount in stand.unit:
            whole[j] += amount
            self.pool[j] -= amount
        for above in _path(stand):
            for j, amount in stand.unit:
                above.missing[j] -= amount

    def _first(self, stand: _Stand) -> _Stand:
        heap = stand.heap
        while True:
            entry = heap[0]
            child: _Stand = entry[-1]
            if not any(child.count):
                heappop(heap)
                continue
            fresh = self._entry(child)
            if fresh == entry:
                return child
            heapreplace(heap, fresh)

    def _entry(self, stand: _Stand) -> Entry:
        want = -2.0**20
        for j, count in enumerate(stand.count):
            if count:
                part = stand.missing[j] / self.capacity[j]
                if part > want:
                    want = part
        key = -((want + TIE) - TIE)
        if stand.leaf is not None:
            leaf = stand.leaf
            return (leaf.before, not leaf.incumbent, key, leaf.after, stand.served, leaf.rank, stand)
        return ((), False, key, (), stand.served, stand.node.rank, stand)


def _path(stand: _Stand) -> Iterable[_Stand]:
    above: _Stand | None = stand
    while above is not None:
        yield above
        above = above.parent


def _nothing_missing(above: _Stand, stand: _Stand) -> bool:
    """Whether a node lacks nothing of what a job below it asks for."""
    return all(above.missing[j] <= 0 for j, _ in stand.unit)


def _able_below(stand: _Stand) -> list[_Stand]:
    found, stack = [], [stand]
    while stack:
        below = stack.pop()
        if below.leaf is not None:
            if below.able:
                found.append(below)
        else:
            stack.extend(child for child in below.children if any(child.count))
    return found
