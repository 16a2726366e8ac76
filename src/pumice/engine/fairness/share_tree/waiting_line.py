"""Waiting lines: equal jobs of one parent that run nothing, are owed nothing, and would start the same unit next.

Their keys in the serving order differ by rank alone (age, then name), so only the first of them, the head, can be
served next. The order counts and ranks the head and none of the others: when a unit begins or ceases to be placeable,
that costs the number of lines, however many jobs wait in them.

A job leaves its line when it starts a task, gets an integer target, or is offered by itself (``set_candidate``). It may
stand alone at any time; to stand in a line it must meet ``TargetOrder.may_line_up``.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from pumice.engine.fairness.share_tree.equal_jobs import EqualJobs

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import JobNode, Rank
    from pumice.engine.state.task_shapes import TaskShape

LineKey = tuple[EqualJobs, Any, tuple[int, ...], tuple[int, ...]]
"""Equal jobs, their unit or the shapes of which they choose one, and their sort keys before and after the share."""


class LineKeeper:
    """Hears of jobs that leave their line."""

    def left(self, line: WaitingLine, leaf: JobNode) -> None:
        """Called after a job has left a line, which may be empty now."""
        raise NotImplementedError


class WaitingLine:
    """Jobs of which only the first can be served next."""

    __slots__ = (
        "_keeper",
        "_ranks",
        "able",
        "arrival",
        "equals",
        "head",
        "key",
        "members",
        "menu",
        "told",
        "unit",
        "untold",
    )

    def __init__(self, keeper: LineKeeper, key: LineKey, unit: Any, menu: tuple[TaskShape, ...] | None) -> None:
        self._keeper = keeper
        self.key = key
        self.equals = key[0]
        self.unit = unit  # an AllocationUnit: what each of them would start next
        self.menu = menu  # for jobs of unlike tasks: the shapes that may be next, in task order
        self.members: dict[int, JobNode] = {}  # by serial number
        self._ranks: list[Rank] = []  # a heap; ranks of jobs that left are still in it
        self.head: JobNode | None = None  # the member that is a candidate; None while the unit cannot be placed
        self.able = False  # whether the unit may be placeable now
        self.arrival = 0  # when they began to wait for that unit, if they have changed to it together
        self.told = ""  # the condition that all members have, but for those in ``untold``
        self.untold: dict[int, JobNode] = {}

    def add(self, leaf: JobNode) -> None:
        """Add a job."""
        self.members[leaf.serial] = self.untold[leaf.serial] = leaf
        leaf.waiting_line = self
        heappush(self._ranks, leaf.rank)
        if len(self._ranks) > 2 * len(self.members) + 64:
            self._ranks = [member.rank for member in self.members.values()]
            heapify(self._ranks)

    def remove(self, leaf: JobNode) -> None:
        """Remove a job: from now on it waits by itself for the same unit."""
        del self.members[leaf.serial]
        self.untold.pop(leaf.serial, None)
        leaf.waiting_line = None
        leaf.unit = self.unit
        leaf.arrival = max(leaf.arrival, self.arrival)
        self.unit.waiting[leaf] = None
        self._keeper.left(self, leaf)

    def hear(self, leaf: JobNode, condition: str) -> None:
        """Record that a member has this condition now."""
        if self.told in ("", condition):
            self.told = condition
            self.untold.pop(leaf.serial, None)
        else:
            self.untold[leaf.serial] = leaf

    def first(self) -> JobNode | None:
        """The member that comes first; None if there is none."""
        ranks = self._ranks
        while ranks:
            leaf = self.members.get(ranks[0][-1])
            if leaf is not None:
                return leaf
            heappop(ranks)
        return None
