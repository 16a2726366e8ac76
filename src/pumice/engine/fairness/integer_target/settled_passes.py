"""Passes of which a change of entitlements or of few jobs changes little, seen from numbers of jobs.

After a solve the entitlement of very many jobs differs a little, and most often hardly an integer target does. A pass
over a node whose children are all jobs of equal tasks hands each job one unit at most, and who gets one follows from
counts:

    queue, 9.7 left    ten equal jobs, entitled to 9.97 tasks each    base 9, a unit for the first 9 of the ten
    queue, 9.6 left    the same, now entitled to 9.96 each            base 9, a unit for the first 9: nothing to do
    queue, 8.9 left    the same, now entitled to 9.89 each            base 9, a unit for the first 8: one job changes

*Cohorts* are equal jobs with equal lines: they have one base and offer the same unit. Those that get it are the first
in an order that changes only with the jobs themselves. So the units of a pass are counted by cohorts, and only jobs
that get one now and got none before, or the other way round, are touched. Where cohorts cannot tell, the pass is
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pumice.engine.fairness.integer_target.covered_units import base_units, covered_tasks
from pumice.engine.fairness.integer_target.deficits import LEAST, TOLERANCE
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER
from pumice.engine.fairness.share_tree.equal_jobs import EXACT, EqualJobs
from pumice.engine.fairness.share_tree.share_node import Rank, latest_owed_start
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.integer_target.task_line import Line
    from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode

Key = tuple[tuple[int, ...], tuple[int, ...], float]


class Cohort:
    """Equal jobs of one node that have the same line, and how many of them its pass has handed a unit."""

    __slots__ = (
        "base",
        "before",
        "behind",
        "equals",
        "fits",
        "head",
        "held",
        "jobs",
        "joined",
        "line",
        "one_more",
        "run",
        "served",
        "tasks",
        "units",
        "whole",
    )

    def __init__(self, equals: EqualJobs, line: Line) -> None:
        self.equals = equals
        self.line = line  # () if they are entitled to all that they ask for
        self.jobs = self.served = 0
        self.units = 0  # how many would be served if the pass were repeated
        self.fits = True  # whether another one may fit then
        self.joined = False  # whether jobs have joined since
        self.before: tuple[int, ...] | None = None  # their keys before the share; None if they differ
        self.base = base_units(equals.exact, line)  # of each run of the line, what the entitlement of a job covers
        self.tasks = sum([units * run.tasks for units, run in zip(self.base, line, strict=True)])
        self.whole = [0] * len(equals.exact)  # the same as amounts
        for (items, _, _, _), units in zip(line, self.base, strict=True):
            for j, amount in items:
                self.whole[j] += units * amount
        self.one_more = list(self.base)  # what is handed out to a job that has been served
        self.run = _first_left(line, self.base)  # the run of which they offer a unit
        self.head: Items = ()
        self.behind: Items = ()  # the unit that a served job offers next
        self.held = False
        if self.run < len(line):
            self.head, self.held = line[self.run].items, line[self.run].held
            self.one_more[self.run] += 1
            following = _first_left(line, self.one_more)
            self.behind = line[following].items if following < len(line) else ()

    def is_based(self) -> bool:
        """Whether the entitlement of its jobs still covers the same units."""
        satisfied = self.equals.targets == self.equals.demand.satisfied
        if not self.line:
            return satisfied
        if satisfied or self.equals.targets is None:
            return False
        return covered_tasks(self.equals.targets[0], self.line) == self.tasks

    def count(self, leaf: JobNode) -> None:
        """Add a job."""
        if not self.jobs:
            self.before = leaf.before
        elif self.before != leaf.before:
            self.before = None
        self.jobs += 1
        leaf.cohort = self

    def has_served(self, leaf: JobNode) -> bool:
        """Whether a job has a unit from the pass."""
        return leaf.taken[self.run] != self.base[self.run]

    def key(self, capacity: list[int]) -> Key | None:
        """What orders its jobs before those of other cohorts (see ``unit_walk``); None if not all have the same."""
        if self.before is None:
            return None
        exact, whole = self.equals.exact, self.whole
        want = max([(exact[j] - whole[j] * EXACT) / ((capacity[j] or 1) * EXACT) for j, _ in self.head])
        return self.equals.rank_class, self.before, -((want + GRID_ROUNDER) - GRID_ROUNDER)

    def misses(self, nothing: list[int], *, served: bool) -> bool:
        """Whether a job has a deficit of what it offers, or would still have one after it has been served."""
        exact, whole = self.equals.exact, self.whole
        more = dict(self.head) if served else {}
        for j, _ in self.behind if served else self.head:
            if exact[j] - (whole[j] + more.get(j, 0)) * EXACT > nothing[j]:
                return True
        return False


class PassRecord:
    """What the pass of a node over jobs of equal tasks has handed out, by cohorts."""

    __slots__ = ("_cohorts", "_orders")

    def __init__(self) -> None:
        self._cohorts: dict[EqualJobs, list[Cohort]] = {}
        self._orders: dict[tuple[Cohort, ...], list[JobNode]] = {}  # jobs in the order in which they are served

    def cohort_of(self, leaf: JobNode) -> Cohort | None:
        """The cohort in which a job belongs; None if its tasks are not equal or it is not what its equals are."""
        equals = leaf.equals
        if equals is None or leaf.demand is not equals.demand or not leaf.demand.alike:
            return None
        found = self._cohorts.get(equals)
        if found is None:
            found = self._cohorts[equals] = []
        for cohort in found:
            if cohort.line is leaf.line:
                return cohort
        found.append(Cohort(equals, leaf.line))
        return found[-1]

    def add(self, leaf: JobNode) -> bool:
        """Add a job that has no unit from the pass; False if it does not fit into a cohort."""
        if not leaf.demand.pieces:
            return True  # a job that has ended gets nothing from any pass
        cohort = self.cohort_of(leaf)
        if cohort is None or leaf.taken != cohort.base:
            return False
        cohort.count(leaf)
        cohort.joined = True
        self._forget_orders(cohort)
        return True

    def discard(self, leaf: JobNode) -> None:
        """Remove a job that has no unit from the pass any more."""
        cohort = leaf.cohort
        assert cohort is not None
        cohort.jobs -= 1
        leaf.cohort = None
        self._forget_orders(cohort)

    def _forget_orders(self, changed: Cohort) -> None:
        for cohorts in [cohorts for cohorts in self._orders if changed in cohorts]:
            del self._orders[cohorts]

    def changes(self, node: ShareNode, nothing: list[int], capacity: list[int]) -> list[JobNode] | None:
        """The jobs that have a unit from the pass and would have none if it were repeated now, or the other way round.

        None if cohorts cannot tell. The passes above the node must have been taken back.
        """
        cohorts = self._drop_empty()
        left = [exact - whole * EXACT for exact, whole in zip(node.exact, node.integer_target, strict=True)]
        for cohort in cohorts:
            if not cohort.is_based():
                return None
            _add(left, cohort.head, cohort.served)
            cohort.units = 0
        offering = [cohort for cohort in cohorts if cohort.head]
        wanting = [cohort for cohort in offering if _fits(left, cohort.head) and cohort.misses(nothing, served=False)]
        by_size: dict[float, list[Cohort]] = {}
        for cohort in wanting:
            if cohort.held:
                size = max([amount / (capacity[j] or 1) for j, amount in cohort.head])
                by_size.setdefault(size, []).append(cohort)
        changed: list[JobNode] = []
        for size in sorted(by_size, reverse=True):
            if not self._serve(left, by_size[size], capacity, changed):
                return None
        waiting = [cohort for cohort in wanting if not cohort.held and _fits(left, cohort.head)]
        if not self._serve(left, waiting, capacity, changed):
            return None
        asked = {cohort for cohort in wanting if cohort.held}.union(waiting)
        for cohort in offering:
            if cohort.served and cohort not in asked:
                changed += [leaf for leaf in self._order((cohort,)) if cohort.has_served(leaf)]
            # A job gets one unit at most in the first stage. In the second, where deficits of jobs do not matter, no
            # unit may fit.
            if cohort.units < cohort.jobs and _fits(left, cohort.head):
                return None
            if not cohort.units or not cohort.behind:
                continue
            if cohort.misses(nothing, served=True) or _fits(left, cohort.behind):
                return None
        return changed

    def _drop_empty(self) -> list[Cohort]:
        """Forget the cohorts that all jobs have left; returns the others."""
        for equals, alike in list(self._cohorts.items()):
            if any(not cohort.jobs for cohort in alike):
                self._cohorts[equals] = [cohort for cohort in alike if cohort.jobs]
                if not self._cohorts[equals]:
                    del self._cohorts[equals]
        return [cohort for alike in self._cohorts.values() for cohort in alike]

    def accept(self) -> None:
        """Take the units of the last ``changes`` as handed out."""
        for alike in self._cohorts.values():
            for cohort in alike:
                cohort.served, cohort.joined = cohort.units, False

    def _serve(self, left: list[int], cohorts: list[Cohort], capacity: list[int], changed: list[JobNode]) -> bool:
        """Hand out units to cohorts that are served together; False if cohorts cannot tell who gets them."""
        classes: dict[Key, list[Cohort]] = {}
        if len(cohorts) > 1 and not _all_fit(left, cohorts):
            for cohort in cohorts:
                key = cohort.key(capacity)
                if key is None:
                    return False
                classes.setdefault(key, []).append(cohort)
            for key in sorted(classes):
                self._serve_in_turn(left, tuple(classes[key]), changed)
        else:
            for cohort in cohorts:
                self._serve_in_turn(left, (cohort,), changed)
        return True

    def _serve_in_turn(self, left: list[int], cohorts: tuple[Cohort, ...], changed: list[JobNode]) -> None:
        """Hand out units to cohorts with equal keys, job by job unless there is one of which as many get one."""
        first = cohorts[0]
        if len(cohorts) == 1:
            first.units = _room(left, first.head, first.jobs)
            if first.units == first.served and (not first.joined or first.units in (0, first.jobs)):
                _add(left, first.head, -first.units)
                return
        for cohort in cohorts:
            cohort.units, cohort.fits = 0, True
        for leaf in self._order(cohorts):
            cohort_ = leaf.cohort
            assert cohort_ is not None
            gets = cohort_.fits and _fits(left, cohort_.head)
            if gets:
                cohort_.units += 1
                _add(left, cohort_.head, -1)
            else:
                cohort_.fits = False
            if gets is not cohort_.has_served(leaf):
                changed.append(leaf)

    def _order(self, cohorts: tuple[Cohort, ...]) -> list[JobNode]:
        """The jobs of cohorts with equal keys, in the order in which they are served (see ``unit_walk``)."""
        order = self._orders.get(cohorts)
        if order is None:
            jobs = [leaf for equals in {c.equals: None for c in cohorts} for leaf in equals.members.values()]
            jobs = [leaf for leaf in jobs if leaf.cohort in cohorts]
            order = sorted(jobs, key=_tie_break)
            self._orders[cohorts] = order
        return order


def _tie_break(leaf: JobNode) -> tuple[tuple[int, ...], tuple[int, ...], int, int, Rank]:
    return leaf.before, leaf.after, latest_owed_start(leaf), leaf.last_turn, leaf.rank


def record_of(
    node: ShareNode, given: Sequence[tuple[JobNode, int]], joined: Sequence[JobNode] = ()
) -> PassRecord | None:
    """Record what the pass of a node has handed out, given the entitlements now; None if counts cannot tell.

    ``joined`` are the jobs that have changed since the pass, and have nothing from it.
    """
    served = dict(given)
    record = PassRecord()
    jobs = node.jobs()
    if len(served) < len(given) or len(jobs) < len(node.children):
        return None
    for leaf in jobs:
        leaf.cohort = None
        if not leaf.demand.pieces:
            continue
        cohort = record.cohort_of(leaf)
        if cohort is None:
            return None
        run = served.get(leaf, -1)
        if run < 0:
            if leaf.taken != cohort.base:
                return None
        elif run != cohort.run or leaf.taken != cohort.one_more:
            return None
        else:
            cohort.served += 1
        cohort.count(leaf)
    for leaf in joined:
        if leaf.cohort is not None:
            leaf.cohort.joined = True
    return record


def _first_left(line: Line, units: list[int]) -> int:
    run = 0
    while run < len(line) and units[run] == line[run].number:
        run += 1
    return run


def _all_fit(left: list[int], cohorts: list[Cohort]) -> bool:
    """Whether all jobs of these cohorts can be served, in whatever order: each of their units would fit as the last."""
    after = list(left)
    for cohort in cohorts:
        _add(after, cohort.head, -cohort.jobs)
    for cohort in cohorts:
        for j, amount in cohort.head:
            if amount * LEAST > (after[j] + amount * EXACT) * TOLERANCE:
                return False
    return True


def _add(left: list[int], unit: Items, number: int) -> None:
    for j, amount in unit:
        left[j] += number * amount * EXACT


def _fits(left: list[int], unit: Items) -> bool:
    for j, amount in unit:
        if amount * LEAST > left[j] * TOLERANCE:
            return False
    return True


def _room(left: list[int], unit: Items, most: int) -> int:
    """How many units can be handed out one after another, at most so many."""
    if not _fits(left, unit):
        return 0
    for j, amount in unit:
        most = min(most, 1 + (left[j] * TOLERANCE - amount * LEAST) // (amount * EXACT * TOLERANCE))
    return most
