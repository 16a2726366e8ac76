"""Equal jobs: the jobs of one parent that ask for the same, in the same class and for the same user.

They are entitled to the same, so they are one leaf of the target solver, and one object holds the entitlement of all:
the members refer to its vectors, which change in place. A solve then costs what the number of *unlike* jobs and the
number of changed jobs cost, however many equal ones wait.

A job joins its equals when targets are solved (``ShareTree.group_equal_jobs``). Until then it keeps the entitlement
that it had, also while its demand changes in the middle of a cycle.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pumice.engine.fairness.integer_target.task_line import Line
from pumice.engine.fairness.share_tree.demand import Demand

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode

EXACT_BITS = 40
EXACT = 1 << EXACT_BITS
"""Entitlements are counted in this fraction of a unit."""
HALF = EXACT // 2
UNIT = 1.0 / EXACT
"""A power of two: a product with it is as exact as the quotient, and a fraction of the work for large integers."""

JobClass = tuple[int, ...]
"""The class of a job in the target: the permanent part of its keys before the share."""

Equality = tuple[JobClass, Demand, str]
"""What equal jobs have in common: class, demand and user."""


class EqualJobs:
    """Jobs that are equal for the target, and their entitlement."""

    __slots__ = (
        "_arrivals",
        "demand",
        "due",
        "entitled",
        "exact",
        "joined",
        "lines",
        "members",
        "parent",
        "rank_class",
        "targets",
        "user",
    )

    def __init__(self, equality: Equality, parent: ShareNode, width: int) -> None:
        self.parent = parent
        self.rank_class, self.demand, self.user = equality
        self.members: dict[int, JobNode] = {}  # by serial number
        self._arrivals: list[int] = []  # a heap of their serial numbers; those of jobs that left are still in it
        self.joined: list[tuple[JobNode, list[int]]] = []  # since the last solve, with the entitlement they had
        self.lines: dict[tuple[int, int], Line] = {}  # the units of a member, by its gang and the tasks that it holds
        self.targets: tuple[float, ...] | None = None  # tasks of each piece of the demand, for each job; None: unknown
        self.exact: list[int] = [0] * width
        self.entitled: list[int] = [0] * width
        self.due: list[float] = [0.0] * width

    @property
    def equality(self) -> Equality:
        """What the members have in common."""
        return self.rank_class, self.demand, self.user

    def join(self, leaf: JobNode) -> None:
        """Add a job; from now on it is entitled to what the others are."""
        self.members[leaf.serial] = leaf
        heappush(self._arrivals, leaf.serial)
        if len(self._arrivals) > 2 * len(self.members) + 64:
            self._arrivals = sorted(self.members)
        self.joined.append((leaf, leaf.exact))
        leaf.equals, leaf.demand = self, self.demand
        leaf.exact, leaf.entitled, leaf.due = self.exact, self.entitled, self.due

    def leave(self, leaf: JobNode) -> None:
        """Remove a job; it keeps what it was entitled to."""
        del self.members[leaf.serial]
        leaf.equals = None
        leaf.exact, leaf.entitled, leaf.due = list(self.exact), list(self.entitled), list(self.due)

    def first(self) -> int:
        """The serial number of the first member: it orders groups of equal jobs below one parent."""
        arrivals = self._arrivals
        while arrivals[0] not in self.members:
            heappop(arrivals)
        return arrivals[0]

    def entitle(self, exact: list[int]) -> bool:
        """Set the entitlement of all members; returns whether it changed."""
        if exact == self.exact:
            return False
        self.exact[:] = exact
        entitled, due = self.entitled, self.due
        for j, amount in enumerate(exact):
            entitled[j] = (amount + HALF) >> EXACT_BITS
            due[j] = float(amount) * UNIT
        return True

    def widen(self, more: int) -> None:
        """Extend the vectors for resources that were registered later."""
        self.exact.extend([0] * more)
        self.entitled.extend([0] * more)
        self.due.extend([0.0] * more)
