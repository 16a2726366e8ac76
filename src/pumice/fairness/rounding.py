"""Whole targets: how the divisible target becomes tasks that can be started (fairness.md 3, step 1).

Every job first gets the whole part of its target (nothing, if that is less than its gang). What these leave of
the cluster is handed out in units, at most one a job, each to the job that a walk by the largest part still
missing, (E - whole so far) / r, finds. Incumbents, who already hold more than their whole part, go first, as
long as something is missing on every level above them: nobody loses a place to rounding noise. A unit must find room
at every level: below each ceiling, for its user, and outside what others are guaranteed (see ``rooms``).

Whole parts are kept and summed up the tree (``base``): a job whose target moves without passing a whole number
costs nothing. While units are handed out, what is missing only falls and able jobs only become fewer, so a node's
key only gets worse: a heap entry that is out of date is found out when it comes up, and put back where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from math import nan

from pumice.fairness.order import TIE
from pumice.fairness.rooms import Rooms
from pumice.fairness.tree import EXACT, Entry, JobNode, ShareNode, ShareTree, latest_owed_start
from pumice.model.objects import Items

HAIR = 4e-6  # tasks: more than a target may be below the whole number that it is taken for


def set_whole_targets(tree: ShareTree, capacity: list[int]) -> list[JobNode]:
    """Round every job's target to whole units; returns the jobs whose whole target changed."""
    wanting: list[JobNode] = []
    for leaf in tree.jobs.values():
        target, demand, gang, unit = leaf.rounded
        if target != leaf.target or demand is not leaf.demand or gang != leaf.gang:
            unit = _set_base(leaf, tree.width)
        if unit:
            wanting.append(leaf)
    rooms = _rooms(tree, capacity)
    if tree.bounds is None:
        pool = rooms.whole.left
        takers = [leaf for leaf in wanting if all(amount <= pool[j] for j, amount in leaf.rounded[3])]
    else:
        takers = [leaf for leaf in wanting if rooms.fits(leaf, leaf.rounded[3])]
    extra = _HandOut(capacity, rooms).run(takers) if takers else {}
    changed = []
    for leaf in tree.jobs.values():
        whole = leaf.base
        if leaf in extra:
            whole = list(whole)
            for j, amount in extra[leaf]:
                whole[j] += amount
        if whole != leaf.whole:
            leaf.whole = list(whole)
            changed.append(leaf)
    return changed


# --- whole parts -------------------------------------------------------------------------------------------------


def _rooms(tree: ShareTree, capacity: list[int]) -> Rooms:
    """What the whole parts leave, after somebody stepped back wherever they were more than a limit allows."""
    while True:
        rooms = Rooms(tree.root, capacity, tree.bounds)
        if tree.bounds is None or not any(_step_back(jobs, j, tree.width) for jobs, j in rooms.overfull()):
            return rooms


def _step_back(jobs: list[JobNode], j: int, width: int) -> bool:
    """One of these jobs gets less of a resource: the youngest whose target was made whole by a hair.

    Targets that are as good as whole numbers are whole; together they may so be a little more than a limit is.
    """
    for leaf in sorted(jobs, key=lambda leaf: leaf.rank, reverse=True):
        before = leaf.base[j]
        if before:
            demand = leaf.demand
            hair = HAIR if demand.alike else HAIR / max(1, sum(count for _, count in demand.parts))
            _set_base(leaf, width, leaf.target - hair)
            if leaf.base[j] < before:
                return True
    return False


def _set_base(leaf: JobNode, width: int, target: float | None = None) -> Items:
    """Work out a job's whole part and count the difference on its path; returns what one more unit asks for.

    target: its own, if not given; another one will be forgotten the next time.
    """
    counts = _whole_counts(leaf, leaf.target if target is None else target)
    base = _vector(leaf, counts, width, leaf.target if target is None else target)
    unit = _unit(leaf, counts)
    leaf.rounded = (leaf.target if target is None else nan, leaf.demand, leaf.gang, unit)
    if base != leaf.base:
        difference = [(j, new - old) for j, (new, old) in enumerate(zip(base, leaf.base, strict=True)) if new != old]
        node: ShareNode | None = leaf
        while node is not None:
            for j, amount in difference:
                node.base[j] += amount
            node = node.parent
    return unit


def forget_base(leaf: JobNode) -> None:
    """Before a job leaves the tree: its whole part no longer counts."""
    leaf.target = 0.0
    leaf.demand = type(leaf.demand)((), (), ())
    _set_base(leaf, len(leaf.base))


def _whole_counts(leaf: JobNode, target: float) -> list[int]:
    """Whole tasks of each part of the demand; none if together they are less than the gang."""
    demand = leaf.demand
    if demand.alike:
        counts = [int(target)]
    elif target >= 1.0:
        return [count for _, count in demand.parts]
    else:
        counts = [int(target * count + 1e-9) for _, count in demand.parts]
    if sum(counts) < leaf.gang or (demand.gang_items and len(counts) > 1 and not _contains_gang(leaf, counts)):
        return [0] * len(counts)
    return counts


def _contains_gang(leaf: JobNode, counts: list[int]) -> bool:
    """Whether so many tasks of each part leave room for what the job must start with (its roles' minimums)."""
    whole = {j: 0 for j, _ in leaf.demand.direction}
    for (items, _), count in zip(leaf.demand.parts, counts, strict=True):
        for j, amount in items:
            whole[j] += amount * count
    return all(amount <= whole.get(j, 0) for j, amount in leaf.demand.gang_items)


def _vector(leaf: JobNode, counts: list[int], width: int, target: float) -> list[int]:
    whole = [0] * width
    demand = leaf.demand
    if not demand.alike and target >= 1.0:
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
    if not any(counts) and demand.gang_items:
        return demand.gang_items
    for (items, count), have in zip(demand.parts, counts, strict=True):
        if have < count:
            return items
    return ()


# --- handing out the rest ------------------------------------------------------------------------------------------


class _Stand:
    """Where a node stands in the hand-out: what is missing, and which resources able jobs below ask for."""

    __slots__ = ("able", "children", "count", "heap", "leaf", "missing", "node", "parent", "served", "unit")

    def __init__(self, node: ShareNode, parent: _Stand | None) -> None:
        self.node = node
        self.parent = parent
        self.missing = [e - w * EXACT for e, w in zip(node.exact, node.base, strict=True)]
        self.served = latest_owed_start(node)
        self.children: list[_Stand] = []
        self.count = [0] * len(self.missing)
        self.heap: list[Entry] = []
        self.leaf = node if isinstance(node, JobNode) else None
        self.unit: Items = self.leaf.rounded[3] if self.leaf is not None else ()
        self.able = False
        if parent is not None:
            parent.children.append(self)


class _HandOut:
    """Hands out what the whole parts leave."""

    def __init__(self, capacity: list[int], rooms: Rooms) -> None:
        self.scale = [offered * EXACT for offered in capacity]
        # What is missing counts as nothing when it is nothing on the grid on which keys are compared.
        self.nothing = [offered * EXACT // 2**30 for offered in capacity]
        self.rooms = rooms
        self.stands: dict[ShareNode, _Stand] = {}
        self.extra: dict[JobNode, Items] = {}

    def run(self, takers: list[JobNode]) -> dict[JobNode, Items]:
        """Incumbents first, then everybody; returns who got a unit."""
        stands = [self._stand(leaf) for leaf in takers]
        for stand in stands:
            leaf = stand.leaf
            assert leaf is not None
            leaf.incumbent = any(leaf.held[j] > leaf.base[j] for j, _ in stand.unit)
        self._pass([s for s in stands if s.leaf is not None and s.leaf.incumbent], only_missing=True)
        self._pass([s for s in stands if s.leaf not in self.extra], only_missing=False)
        return self.extra

    def _stand(self, node: ShareNode) -> _Stand:
        stand = self.stands.get(node)
        if stand is None:
            parent = self._stand(node.parent) if node.parent is not None else None
            stand = self.stands[node] = _Stand(node, parent)
        return stand

    def _pass(self, takers: list[_Stand], *, only_missing: bool) -> None:
        """Hand out units until nobody can take one."""
        if not takers:
            return
        self._enter(takers)
        if only_missing:
            for stand in takers:
                if any(self._nothing_missing(above, stand) for above in _path(stand)):
                    self._leave(stand)
        root = next(iter(self.stands.values()))
        while root.parent is not None:
            root = root.parent
        while True:
            self._drop_too_large()
            if not any(root.count):
                return
            stand = root
            while stand.leaf is None:
                stand = self._first(stand)
            self._give(stand)
            self._leave(stand)
            if only_missing:
                self._drop_satisfied(stand)

    def _enter(self, takers: list[_Stand]) -> None:
        """Everybody takes part: count them and stand them in line."""
        lines: dict[_Stand, dict[_Stand, None]] = {}
        for stand in takers:
            stand.able = True
            for above in _path(stand):
                for j, _ in stand.unit:
                    above.count[j] += 1
                if above.parent is not None:
                    lines.setdefault(above.parent, {})[above] = None
        for stand, children in lines.items():
            stand.heap = [self._entry(child) for child in children]
            heapify(stand.heap)
        self.rooms.line_up(stand.leaf for stand in takers if stand.leaf is not None)

    def _drop_too_large(self) -> None:
        """Who asks for more than is left is able no longer."""
        for leaf in self.rooms.too_large():
            self._leave(self.stands[leaf])

    def _drop_satisfied(self, served: _Stand) -> None:
        """Who now lacks nothing on some level above is able no longer."""
        for above in _path(served):
            if any(above.missing[j] <= self.nothing[j] for j, _ in served.unit):
                for other in _able_below(above):
                    if self._nothing_missing(above, other):
                        self._leave(other)

    def _nothing_missing(self, above: _Stand, stand: _Stand) -> bool:
        """Whether a node lacks nothing of what a job below it asks for."""
        return all(above.missing[j] <= self.nothing[j] for j, _ in stand.unit)

    def _leave(self, stand: _Stand) -> None:
        if stand.able:
            stand.able = False
            for above in _path(stand):
                for j, _ in stand.unit:
                    above.count[j] -= 1

    def _give(self, stand: _Stand) -> None:
        assert stand.leaf is not None
        self.extra[stand.leaf] = stand.unit
        self.rooms.take(stand.leaf, stand.unit)
        for above in _path(stand):
            for j, amount in stand.unit:
                above.missing[j] -= amount * EXACT

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
        want = -(2.0**20)
        for j, count in enumerate(stand.count):
            if count:
                part = stand.missing[j] / self.scale[j]
                if part > want:
                    want = part
        key = -((want + TIE) - TIE)
        leaf = stand.leaf
        if leaf is not None:
            # Of the tiers those that make classes come first. That a gang has not started only breaks ties: ahead of
            # the incumbents it would hand their unit to whoever does not run, and the two would evict each other for
            # ever.
            order = (leaf.rank_class, not leaf.incumbent, leaf.before, key, leaf.after)
            return (*order, False, stand.served, leaf.turn, leaf.rank, stand)
        # On a tie a branch that already holds more than its whole targets so far goes first: otherwise every start
        # would hand the odd unit to another branch, and what runs for it here would stand in the other's way until it
        # ends.
        node = stand.node
        ahead = any(
            count and node.held[j] * EXACT > node.exact[j] - stand.missing[j] for j, count in enumerate(stand.count)
        )
        return ((), False, (), key, (), not ahead, stand.served, node.turn, node.rank, stand)


def _path(stand: _Stand) -> Iterator[_Stand]:
    above: _Stand | None = stand
    while above is not None:
        yield above
        above = above.parent


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
