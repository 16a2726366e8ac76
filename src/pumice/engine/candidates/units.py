"""Allocation units: what a job can start next (docs/fairness.md, section 1.2).

A job that has not started needs everything that its gang still lacks at once; a started job grows by one task at a
time. Jobs whose units are alike share one ``AllocationUnit``, so that a finding about it (it does not fit now) holds
for all of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items, TaskStatus

Parts = tuple[tuple[TaskShape, int], ...]
"""Shapes, and how many tasks of each."""


class AllocationUnit:
    """Tasks of the given shapes, placed all or nothing. Compared by identity.

    Units of the same tasks in another order are different units: tasks are placed in task order, so the order decides
    which of them cannot be placed.
    """

    __slots__ = ("ask", "coupled", "lines", "parts", "reason", "runs", "short", "size", "topology", "tried", "waiting")

    def __init__(self, runs: Parts) -> None:
        self.runs = runs  # in task order; a shape may occur more than once
        counts: dict[TaskShape, int] = {}
        for shape, count in runs:
            counts[shape] = counts.get(shape, 0) + count
        self.parts = parts = tuple(counts.items())
        self.size = sum(count for _, count in parts)
        self.ask: Items = parts[0][0].ask if self.size == 1 else sum_asks(parts)
        self.coupled = any(shape.coupled for shape, _ in parts)
        self.topology = parts[0][0].topology if self.size > 1 else None  # a single task needs no common domain
        self.waiting: dict[JobNode, None] = {}  # jobs that wait by themselves
        self.lines: dict[WaitingLine, None] = {}  # equal jobs that wait together
        self.reason = ""  # why it could not be placed, once it was needed
        self.tried = False  # whether an attempt failed since capacity last grew
        self.short: tuple[TaskShape, int] | None = None  # if so, the shape of which only this many could be placed

    @property
    def wanted(self) -> bool:
        """Whether any job waits with it."""
        return bool(self.waiting) or bool(self.lines)

    def first_jobs(self) -> Iterator[JobNode]:
        """The jobs that wait with this unit by themselves, and the first of each line."""
        yield from self.waiting
        for line in self.lines:
            first = line.first()
            if first is not None:
                yield first


class UnitTable:
    """All units in use, indexed by the shapes they consist of."""

    def __init__(self) -> None:
        self._units: dict[Parts, AllocationUnit] = {}
        self.of_shape: dict[TaskShape, list[AllocationUnit]] = {}

    def unit(self, runs: Parts) -> tuple[AllocationUnit, bool]:
        """The unit of these tasks, and whether it is new."""
        unit = self._units.get(runs)
        if unit is not None:
            return unit, False
        unit = self._units[runs] = AllocationUnit(runs)
        for shape, _ in unit.parts:
            self.of_shape.setdefault(shape, []).append(unit)
        return unit, True

    def find(self, runs: Parts) -> AllocationUnit | None:
        """The unit of these tasks, if it is in use."""
        return self._units.get(runs)

    def __iter__(self) -> Iterator[AllocationUnit]:
        return iter(self._units.values())

    def drop(self, unit: AllocationUnit) -> None:
        """Forget a unit that no job waits with."""
        if self._units.pop(unit.runs, None) is not None:
            for shape, _ in unit.parts:
                self.of_shape[shape].remove(unit)
                if not self.of_shape[shape]:
                    del self.of_shape[shape]


def sum_asks(parts: Parts) -> Items:
    """What all parts request together."""
    return total_of(tuple((shape.ask, count) for shape, count in parts))


def total_of(parts: tuple[tuple[Items, int], ...]) -> Items:
    """The sum of these amounts, each times its count."""
    total: dict[int, int] = {}
    for items, count in parts:
        for j, amount in items:
            total[j] = total.get(j, 0) + amount * count
    return tuple(sorted(total.items()))


def gang_size(job: Job, start_size: int) -> int:
    """The current size of a job's gang: its minimum minus the succeeded tasks, at most the unfinished ones."""
    return min(start_size - job.succeeded, job.unfinished_tasks)


def missing_to_start(job: Job, start_size: int) -> int:
    """How many tasks a job must still start together; 0 or less once it has started."""
    missing = gang_size(job, start_size) - job.running
    if missing <= 0 < start_size and job.spec is not None and job.spec.min_task_member:
        return sum(need for need in _role_needs(job).values() if need > 0)
    return missing


def makes_a_gang(job: Job, tasks: Collection[Task], start_size: int) -> bool:
    """Whether these tasks satisfy what a job must start with: its minimum, and that of every role."""
    if len(tasks) < gang_size(job, start_size):
        return False
    if start_size <= 0 or job.spec is None or not job.spec.min_task_member:
        return True
    roles = Counter(task.spec.role for task in tasks)
    roles += Counter(task.spec.role for task in job.each_task() if task.status is TaskStatus.SUCCEEDED)
    return all(roles[role] >= least for role, least in job.spec.min_task_member.items())


class GangCapacity:
    """How many tasks of each shape a gang may contain, and how much they may request together."""

    def __init__(self, at_most: Mapping[TaskShape, int], capacity: list[int] | None = None) -> None:
        self.at_most = at_most
        self._left = list(capacity) if capacity is not None else None
        self._count: dict[TaskShape, int] = {}

    def take(self, shape: TaskShape, wanted: int = 1) -> int:
        """Take capacity for so many more tasks, or fewer; returns for how many there was some."""
        count, left = self._count.get(shape, 0), self._left
        number = min(wanted, self.at_most.get(shape, count + wanted) - count)
        if left is not None:
            for j, amount in shape.ask:
                number = min(number, left[j] // amount)
        if number <= 0:
            return 0
        if left is not None:
            for j, amount in shape.ask:
                left[j] -= amount * number
        self._count[shape] = count + number
        return number

    def is_too_small(self, job: Job, missing: int, barred: Collection[TaskShape]) -> bool:
        """Whether the numbers of tasks alone tell that so many of a job's waiting tasks cannot be taken."""
        most = 0
        for shape, tasks in job.pending.items():
            if shape not in barred:
                waiting = len(tasks)
                most += min(waiting, self.at_most.get(shape, waiting))
        return most < missing


def gang_tasks(
    job: Job, missing: int, barred: Collection[TaskShape] = (), room: GangCapacity | None = None
) -> list[Task] | None:
    """The tasks a job starts with. None: too few are waiting.

    First the minimum of every role; then best-effort tasks, since they cost nothing; then others in task order. Tasks
    of a barred shape (one that fits on no node) are excluded. Beyond the roles any tasks will do, so tasks that do not
    fit beside those already chosen are skipped.
    """
    if room is not None and room.is_too_small(job, missing, barred):
        return None
    return _choose(job.in_order(barred), _role_needs(job), missing, room)


def gang_runs(job: Job, missing: int, barred: Collection[TaskShape] = (), room: GangCapacity | None = None) -> Parts:
    """The shapes of ``gang_tasks`` in task order, equal neighbours merged; (): too few are waiting.

    Most jobs have no roles, and all tasks of one shape come before those of the next: no task needs to be looked at.
    """
    assert job.spec is not None
    groups = None if job.spec.min_task_member else job.groups_in_order(barred)
    if groups is None or not all(group[0].shape.ask for group in groups):
        return runs_of(gang_tasks(job, missing, barred, room) or [])
    runs: list[tuple[TaskShape, int]] = []
    for group in groups:
        shape, number = group[0].shape, min(len(group), missing)
        if room is not None and number:
            number = room.take(shape, number)
        if number:
            runs.append((shape, number))
            missing -= number
    return tuple(runs) if missing <= 0 else ()


def first_tasks(job: Job, size: int, tasks: list[Task], room: GangCapacity | None = None) -> list[Task] | None:
    """The tasks, in task order, that a job would start with if none of its tasks ran yet. None: too few."""
    assert job.spec is not None
    if not job.spec.min_task_member:
        return _choose(tasks, {}, size, room)
    here = Counter(task.spec.role for task in tasks)
    done = Counter(task.spec.role for task in job.each_task() if task.status is TaskStatus.SUCCEEDED)
    # Like the gang, a role's minimum counts at most the unfinished tasks.
    needs = {role: min(least - done[role], here[role]) for role, least in job.spec.min_task_member.items()}
    return _choose(tasks, needs, size, room)


def _role_needs(job: Job) -> dict[str, int]:
    """How many tasks every role still lacks to reach its minimum."""
    assert job.spec is not None
    needs = dict(job.spec.min_task_member)
    if needs:
        for task in job.each_task():
            if task.spec.role in needs and (task.status.held or task.status is TaskStatus.SUCCEEDED):
                needs[task.spec.role] -= 1
    return needs


def _choose(tasks: list[Task], needs: dict[str, int], size: int, room: GangCapacity | None) -> list[Task] | None:
    if not needs and all(task.shape.ask for task in tasks):  # most jobs
        first: list[Task] = []
        for task in tasks:
            if len(first) >= size:
                break
            if room is None or room.take(task.shape):
                first.append(task)
        return first if len(first) >= size else None
    chosen: dict[Task, None] = {}
    for task in tasks:
        if needs.get(task.spec.role, 0) > 0 and (room is None or room.take(task.shape)):
            needs[task.spec.role] -= 1
            chosen[task] = None
    if any(need > 0 for need in needs.values()):
        return None
    for free in (True, False):
        for task in tasks:
            if len(chosen) >= size:
                break
            if task.shape.best_effort is free and task not in chosen and (room is None or room.take(task.shape)):
                chosen[task] = None
    return sorted(chosen, key=lambda task: task.order) if len(chosen) >= size else None


def _nothing_starts_together(job: Job) -> bool:
    """Whether the roles need more than a unit of one task can give: their minimum is then not enforced."""
    return sum(need for need in _role_needs(job).values() if need > 0) > 1


def starts_alone(leaf: JobNode, shape: TaskShape) -> bool:
    """Whether a waiting task of this shape may start by itself; not if it leaves a role below its minimum."""
    job = leaf.job
    if leaf.started or job.spec is None or not job.spec.min_task_member or _nothing_starts_together(job):
        return True
    others = [other for other in job.pending if other is not shape]
    return gang_tasks(job, 1, others, GangCapacity({shape: 1})) is not None


def unit_tasks(leaf: JobNode, unit: AllocationUnit) -> list[Task]:
    """The waiting tasks that a job's unit consists of."""
    pending = leaf.job.pending
    if unit.size == 1 and (leaf.started or _nothing_starts_together(leaf.job)):
        return [pending[unit.parts[0][0]][-1]]
    if len(unit.parts) == 1 and not (leaf.job.spec is not None and leaf.job.spec.min_task_member):
        shape, count = unit.parts[0]
        return pending[shape][-1 : -count - 1 : -1]
    # Exactly as many of each shape as the unit has: tasks that could not be placed were left out of it.
    made_of = dict(unit.parts)
    others = [shape for shape in pending if shape not in made_of]
    tasks = gang_tasks(leaf.job, unit.size, others, GangCapacity(made_of))
    assert tasks is not None, f"{leaf.job.key} offered a unit it does not have"
    return tasks


def runs_of(tasks: list[Task]) -> Parts:
    """The shapes of these tasks in order, equal neighbours merged."""
    runs: list[tuple[TaskShape, int]] = []
    for task in tasks:
        if runs and runs[-1][0] is task.shape:
            runs[-1] = (task.shape, runs[-1][1] + 1)
        else:
            runs.append((task.shape, 1))
    return tuple(runs)


def parts_of(tasks: list[Task]) -> Parts:
    """How many tasks there are of each shape, by shape."""
    counts: dict[TaskShape, int] = {}
    for task in tasks:
        counts[task.shape] = counts.get(task.shape, 0) + 1
    return tuple(sorted(counts.items(), key=lambda part: part[0].index))
