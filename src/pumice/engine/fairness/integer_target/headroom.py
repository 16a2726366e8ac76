"""Where whole targets still have room: in the cluster, below every ceiling, for every limited user.

A unit must find room at each level above its job, and none of what others are guaranteed. What a guarantee has not
used yet takes up what is given below it, so that less, or nothing, is asked for above:

    root, 3 left  --  q (guaranteed 4, 2 of them not used)  --  job, unit 4: asks 4 of q, and 2 of the root

Whoever asks for more than is left somewhere must be told at once, without looking at everybody each time. So each
room has those who depend on it in line, the largest first; jobs with the same unit and the same levels above are
one group. What is left only shrinks; what a group asks for above a guarantee grows as that is used, then it lines up
once more: its earlier, smaller entry says nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode
from pumice.model.specs import Items


class LimitHeadroom:
    """What may still be handed out somewhere, and who asks for how much of it."""

    __slots__ = ("left", "line")

    def __init__(self, left: list[int]) -> None:
        self.left = left
        self.line: dict[int, list[tuple[int, int, UserGroup]]] = {}  # per resource a heap, the largest first

    def too_large(self) -> Iterator[UserGroup]:
        """The groups that ask for more than is left; they leave the line."""
        for j, line in self.line.items():
            while line and -line[0][0] > self.left[j]:
                yield heappop(line)[2]


class LimitLevel:
    """A node with a limit: the room below it, and what of its guarantee is not used."""

    __slots__ = ("groups", "room", "spare")

    def __init__(self, room: LimitHeadroom | None, spare: list[int] | None) -> None:
        self.room = room
        self.spare = spare
        self.groups: list[UserGroup] = []  # whose asks above depend on what is spare


Lane = tuple[LimitLevel, ...]
"""The levels above a job that have a limit, the root's last."""


class UserGroup:
    """Jobs that ask for the same in the same rooms."""

    __slots__ = ("jobs", "lane", "purse", "unit")

    def __init__(self, unit: Items, lane: Lane, purse: LimitHeadroom | None) -> None:
        self.unit = unit
        self.lane = lane
        self.purse = purse
        self.jobs: list[JobNode] = []


class Headroom:
    """All rooms of a tree, as its whole parts leave them."""

    def __init__(self, capacity: list[int], bounds: SolverBounds) -> None:
        self._levels: dict[ShareNode, LimitLevel] = {}
        self._lanes: dict[ShareNode, Lane] = {}
        self._purses: dict[tuple[ShareNode, str], LimitHeadroom] = {}
        self._touched: dict[LimitHeadroom, None] = {}
        self._lined: dict[LimitHeadroom, None] = {}  # rooms with somebody in line
        self._groups: dict[tuple[Items, Lane, LimitHeadroom | None], UserGroup] = {}
        self._count = 0
        self._set_levels(bounds, capacity)

    def _set_levels(self, bounds: SolverBounds, capacity: list[int]) -> None:
        reserved: dict[ShareNode, list[int]] = {}  # what is guaranteed and not used below
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
        """Where whole parts are more than a limit allows: the jobs there, and the resource."""
        for node, level in self._levels.items():
            if level.room is not None and node.parent is not None:
                yield from ((_jobs_below(node), j) for j, left in enumerate(level.room.left) if left < 0)
        for (queue, user), purse in self._purses.items():
            jobs = [leaf for leaf in _jobs_below(queue) if leaf.user == user] if min(purse.left) < 0 else []
            yield from ((jobs, j) for j, left in enumerate(purse.left) if left < 0)

    def fits(self, leaf: JobNode, unit: Items) -> bool:
        """Whether there is room for one unit more of a job."""
        purse = self._purse(leaf)
        if purse is not None and any(amount > purse.left[j] for j, amount in unit):
            return False
        return all(amount <= room.left[j] for room, j, amount in _asks(unit, self._lane(leaf)))

    def clear_lines(self) -> None:
        """Nobody wants anything for now."""
        for room in self._lined:
            room.line = {}
        for group in self._groups.values():
            for level in group.lane:
                level.groups = []
        self._lined.clear()
        self._touched.clear()
        self._groups.clear()

    def line_up(self, leaf: JobNode, unit: Items) -> None:
        """A job wants this unit next."""
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
        """In the rooms of its levels, or of those above one of them."""
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
        """One unit more for a job."""
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
        """The jobs that there is no room for any more since this was last asked."""
        for room in self._touched:
            for group in room.too_large():
                self._groups.pop((group.unit, group.lane, group.purse), None)  # who comes later stands in line anew
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
    """How much of what a unit asks for in each room of a lane."""
    for level in lane:
        if level.room is not None:
            for j, amount in unit:
                yield level.room, j, amount
        if level.spare is not None:
            unit = _beyond(unit, level.spare)


def _beyond(unit: Items, spare: list[int]) -> Items:
    """What of a unit an unused guarantee does not cover."""
    return tuple((j, amount - spare[j]) for j, amount in unit if amount > spare[j])


def _take(room: LimitHeadroom, unit: Items) -> None:
    for j, amount in unit:
        room.left[j] -= amount


def _less(most: list[int], taken: list[int]) -> list[int]:
    return [a - b for a, b in zip(most, taken, strict=True)]


def _jobs_below(node: ShareNode) -> list[JobNode]:
    return [leaf for leaf in node.walk() if isinstance(leaf, JobNode)]
