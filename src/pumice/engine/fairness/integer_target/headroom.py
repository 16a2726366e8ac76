"""Headroom of integer targets: what is left in the cluster, below every ceiling, and for every limited user.

A unit must fit the headroom at each level above its job, outside the guarantees of other queues. An unused guarantee
absorbs what is given below it, so that the unit needs less headroom, or none, above:

    root, 3 left  --  q (guaranteed 4, 2 of them unused)  --  job, unit 4: needs 4 of q, and 2 of the root

Rounding must learn at once which jobs no longer fit somewhere, without scanning all jobs each time. So each headroom
keeps a heap of the groups that depend on it, the largest request first; jobs with the same unit and the same levels
above form one group. Headroom only shrinks. What a group needs above a guarantee grows as the guarantee is used; the
group is then pushed again, and its earlier, smaller entry does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items


class LimitHeadroom:
    """The headroom of one limit, and the groups that need some of it."""

    __slots__ = ("left", "line")

    def __init__(self, left: list[int]) -> None:
        self.left = left
        self.line: dict[int, list[tuple[int, int, UserGroup]]] = {}  # per resource a heap, the largest request first

    def too_large(self) -> Iterator[UserGroup]:
        """Remove from the heaps, and return, the groups that need more than is left."""
        for j, line in self.line.items():
            while line and -line[0][0] > self.left[j]:
                yield heappop(line)[2]


class LimitLevel:
    """A node with a limit: the headroom below it, and the unused part of its guarantee."""

    __slots__ = ("groups", "room", "spare")

    def __init__(self, room: LimitHeadroom | None, spare: list[int] | None) -> None:
        self.room = room
        self.spare = spare
        self.groups: list[UserGroup] = []  # groups whose needs above depend on the unused guarantee


Lane = tuple[LimitLevel, ...]
"""The levels above a job that have a limit, the root's last."""


class UserGroup:
    """Jobs with the same unit and the same limits."""

    __slots__ = ("jobs", "lane", "purse", "unit")

    def __init__(self, unit: Items, lane: Lane, purse: LimitHeadroom | None) -> None:
        self.unit = unit
        self.lane = lane
        self.purse = purse
        self.jobs: list[JobNode] = []


class Headroom:
    """The headroom of all limits of a tree, given the integer targets so far."""

    def __init__(self, capacity: list[int], bounds: SolverBounds) -> None:
        self._levels: dict[ShareNode, LimitLevel] = {}
        self._lanes: dict[ShareNode, Lane] = {}
        self._purses: dict[tuple[ShareNode, str], LimitHeadroom] = {}
        self._touched: dict[LimitHeadroom, None] = {}
        self._lined: dict[LimitHeadroom, None] = {}  # headrooms with queued groups
        self._groups: dict[tuple[Items, Lane, LimitHeadroom | None], UserGroup] = {}
        self._count = 0
        self._set_levels(bounds, capacity)

    def _set_levels(self, bounds: SolverBounds, capacity: list[int]) -> None:
        reserved: dict[ShareNode, list[int]] = {}  # unused guarantees below each node
        for node in reversed(bounds.nodes):
            unused = reserved.get(node, [0] * len(capacity))
            claimed = [a + b for a, b in zip(node.integer_target, unused, strict=True)]
            room = spare = None
            if node in bounds.ceilings or node.parent is None:
                room = LimitHeadroom(_less(bounds.ceilings.get(node, capacity), claimed))
            if node in bounds.guarantees:
                spare = [max(0, amount) for amount in _less(bounds.guarantees[node], claimed)]
                unused = [a + b for a, b in zip(unused, spare, strict=True)]
            self._levels[node] = LimitLevel(room, spare)
            if node.parent is not None and any(unused):
                above = reserved.get(node.parent, [0] * len(capacity))
                reserved[node.parent] = [a + b for a, b in zip(above, unused, strict=True)]
        for queue, ceilings in bounds.users.items():
            for user, most in ceilings.items():
                self._purses[queue, user] = LimitHeadroom(list(most))
            for leaf in _jobs_below(queue):
                purse = self._purse(leaf)
                if purse is not None:
                    purse.left = _less(purse.left, leaf.integer_target)

    def overfull(self) -> Iterator[tuple[list[JobNode], int]]:
        """Limits that the integer targets exceed: the jobs below each, and the resource."""
        for node, level in self._levels.items():
            if level.room is not None and node.parent is not None:
                yield from ((_jobs_below(node), j) for j, left in enumerate(level.room.left) if left < 0)
        for (queue, user), purse in self._purses.items():
            jobs = [leaf for leaf in _jobs_below(queue) if leaf.user == user] if min(purse.left) < 0 else []
            yield from ((jobs, j) for j, left in enumerate(purse.left) if left < 0)

    def fits(self, leaf: JobNode, unit: Items) -> bool:
        """Whether the headroom holds one more unit of a job."""
        purse = self._purse(leaf)
        if purse is not None and any(amount > purse.left[j] for j, amount in unit):
            return False
        return all(amount <= room.left[j] for room, j, amount in _asks(unit, self._lane(leaf)))

    def clear_lines(self) -> None:
        """Empty all heaps: no job requests a unit."""
        for room in self._lined:
            room.line = {}
        for group in self._groups.values():
            for level in group.lane:
                level.groups = []
        self._lined.clear()
        self._touched.clear()
        self._groups.clear()

    def line_up(self, leaf: JobNode, unit: Items) -> None:
        """Register the unit that a job requests next."""
        key = (unit, self._lane(leaf), self._purse(leaf))
        group = self._groups.get(key)
        if group is not None:
            group.jobs.append(leaf)
            return
        group = self._groups[key] = UserGroup(*key)
        group.jobs.append(leaf)
        if group.purse is not None:
            for j, amount in group.unit:
                self._stand(group.purse, j, amount, group)
        self._stand_in_line(group)
        for level in group.lane:
            if level.spare is not None:
                level.groups.append(group)

    def _stand_in_line(self, group: UserGroup, above: LimitLevel | None = None) -> None:
        """Push the group to the heaps of its levels, or of those above one of them."""
        unit, lane = group.unit, group.lane
        while above is not None:
            level, lane = lane[0], lane[1:]
            if level.spare is not None:
                unit = _beyond(unit, level.spare)
            if level is above:
                break
        for room, j, amount in _asks(unit, lane):
            self._stand(room, j, amount, group)

    def _stand(self, room: LimitHeadroom, j: int, amount: int, group: UserGroup) -> None:
        self._count += 1
        heappush(room.line.setdefault(j, []), (-amount, self._count, group))
        self._touched[room] = self._lined[room] = None

    def take(self, leaf: JobNode, unit: Items) -> None:
        """Charge one unit of a job to all its limits."""
        purse = self._purse(leaf)
        if purse is not None:
            _take(purse, unit)
            self._touched[purse] = None
        for level in self._lane(leaf):
            if level.room is not None:
                _take(level.room, unit)
                self._touched[level.room] = None
            if level.spare is not None:
                rest = _beyond(unit, level.spare)
                if rest != unit:
                    for j, amount in unit:
                        level.spare[j] = max(0, level.spare[j] - amount)
                    for group in level.groups:
                        self._stand_in_line(group, level)
                    unit = rest

    def too_large(self) -> Iterator[JobNode]:
        """The jobs that stopped fitting since the last call."""
        for room in self._touched:
            for group in room.too_large():
                self._groups.pop((group.unit, group.lane, group.purse), None)  # a job that comes later is pushed again
                yield from group.jobs
        self._touched.clear()

    def _purse(self, leaf: JobNode) -> LimitHeadroom | None:
        if not self._purses:
            return None
        return self._purses.get((leaf.queue, leaf.user))

    def _lane(self, leaf: JobNode) -> Lane:
        assert leaf.parent is not None
        lane = self._lanes.get(leaf.parent)
        if lane is None:
            levels = []
            node: ShareNode | None = leaf.parent
            while node is not None:
                if node in self._levels:
                    levels.append(self._levels[node])
                node = node.parent
            lane = self._lanes[leaf.parent] = tuple(levels)
        return lane


def _asks(unit: Items, lane: Lane) -> Iterator[tuple[LimitHeadroom, int, int]]:
    """How much of a unit's request each headroom of a lane must supply."""
    for level in lane:
        if level.room is not None:
            for j, amount in unit:
                yield level.room, j, amount
        if level.spare is not None:
            unit = _beyond(unit, level.spare)


def _beyond(unit: Items, spare: list[int]) -> Items:
    """The part of a unit that an unused guarantee does not cover."""
    return tuple((j, amount - spare[j]) for j, amount in unit if amount > spare[j])


def _take(room: LimitHeadroom, unit: Items) -> None:
    for j, amount in unit:
        room.left[j] -= amount


def _less(most: list[int], taken: list[int]) -> list[int]:
    return [a - b for a, b in zip(most, taken, strict=True)]


def _jobs_below(node: ShareNode) -> list[JobNode]:
    return [leaf for leaf in node.walk() if isinstance(leaf, JobNode)]
