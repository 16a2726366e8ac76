"""A job (PodGroup) with the totals of its tasks, updated incrementally.

A job tracks its pending tasks, in task order, and counts those that are placed, each by shape. Its holdings and its
remaining demand follow from that; its tasks are the pending ones and the others. ``validate`` recomputes everything
from scratch.

There may be a million waiting jobs: a job has no container of its own for what it does not have, equal jobs share
their counts, and a job with few tasks keeps them in tuples (see ``pending_tasks``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kubebase.resource_vector import PODS
from pumice.engine.state.pending_tasks import (
    FEW,
    Grouped,
    Pending,
    by_order,
    count_tasks,
    grouped,
    has_shape,
    in_sequence,
    list_tasks,
    sort_tasks,
    together,
    with_next,
    with_sorted,
    without,
)
from pumice.engine.state.succession import Succession, evicted_without_successor
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import Rules, TaskShape
from pumice.model.specs import JobPhase, JobSpec, TaskStatus

Counts = dict[TaskShape, int]
"""Numbers of tasks, by shape; none is 0."""

_NO_COUNTS: Counts = {}  # shared by all jobs; never changed


class Job:
    """A PodGroup with its tasks. ``spec`` is None while only its pods are known."""

    __slots__ = (
        "_others",
        "_pending",
        "common_priority",
        "evicted",
        "gang_was_complete",
        "key",
        "phase",
        "placed",
        "rules",
        "running",
        "shown",
        "spec",
        "spent",
        "succeeded",
        "succession",
        "unsorted",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.spec: JobSpec | None = None
        self.phase = JobPhase.PENDING
        self.rules: Rules = ()  # node rules of plugins: part of the shapes of its tasks
        self.placed = _NO_COUNTS  # tasks that it holds; counts of a single shape are shared and never change
        self.evicted = _NO_COUNTS  # tasks that are releasing because we evicted them; the same
        self.succession: Succession | None = None  # of its evicted tasks; most jobs have none
        self._pending: Pending = ()
        self._others: tuple[Task, ...] | dict[Task, None] = ()  # the tasks that are not pending
        self.unsorted = False
        self.common_priority: int | None = None  # that of all its tasks; None: they differ, or did, or there is none
        self.running = 0  # tasks that are placed
        self.shown = 0  # those of them that the API has confirmed
        self.gang_was_complete = False  # whether the cluster has shown all of its minimum since it last held nothing
        self.spent = 0  # tasks that were placed and failed since it last held nothing
        self.succeeded = 0

    @property
    def tasks(self) -> dict[str, Task]:
        """Its tasks by key: a new dictionary each time, while ``each_task`` is cheap."""
        return {task.key: task for task in self.each_task()}

    @property
    def pending(self) -> Grouped:
        """Its pending tasks by shape, the next to start last. To be read only, and not to be kept."""
        pending = self._pending
        return pending if isinstance(pending, dict) else grouped(pending)

    def awaits(self, shape: TaskShape) -> bool:
        """Whether a task of this shape is pending."""
        pending = self._pending
        return shape in pending if isinstance(pending, dict) else has_shape(pending, shape)

    def pending_shapes(self) -> list[TaskShape]:
        """The shapes of its pending tasks, some of them perhaps several times."""
        pending = self._pending
        return list(pending) if isinstance(pending, dict) else [task.shape for task in pending]

    def next_tasks(self) -> list[Task]:
        """Of each shape that requests something, the task that would start next, in task order."""
        if isinstance(self._pending, dict):
            found = [waiting[-1] for shape, waiting in self._pending.items() if shape.ask]
        else:
            found = list({task.shape: task for task in self._pending if task.shape.ask}.values())
        if len(found) > 1:
            found.sort(key=by_order)
        return found

    def in_order(self, barred: Collection[TaskShape] = ()) -> list[Task]:
        """Its pending tasks in task order, without those of some shapes."""
        found: list[Task] = []
        groups = self.groups_in_order(barred)
        if groups is not None:
            for group in groups:
                found += group[::-1]
            return found
        for shape, group in self.pending.items():
            if shape not in barred:
                found += group
        return sorted(found, key=by_order)

    def groups_in_order(self, barred: Collection[TaskShape] = ()) -> list[list[Task]] | None:
        """The groups of its pending tasks in task order, without those of some shapes; None: they overlap."""
        groups = [tasks for shape, tasks in self.pending.items() if shape not in barred]
        return groups if not self.unsorted and in_sequence(groups) else None

    def each_task(self) -> list[Task]:
        """All of its tasks: the pending ones first."""
        return [*list_tasks(self._pending), *self._others]

    @property
    def priority(self) -> int | None:
        """The highest priority of its unfinished tasks, else of those that will have successors; None: it has none."""
        if not self.unfinished_tasks:
            return max((task.priority for task in self.unreplaced_tasks()), default=None)
        if self.common_priority is not None:
            return self.common_priority
        pending = self._pending
        if isinstance(pending, tuple):
            found = [task.priority for task in pending]
        elif self.unsorted:
            found = [task.priority for tasks in pending.values() for task in tasks]
        else:
            found = [tasks[-1].priority for tasks in pending.values()]  # the first in task order
        found += [task.priority for task in self._others if task.status.unfinished]
        return max(found)

    @property
    def pending_count(self) -> int:
        """How many tasks are pending."""
        return count_tasks(self._pending)

    @property
    def task_count(self) -> int:
        """How many tasks it has."""
        return self.pending_count + len(self._others)

    @property
    def unfinished(self) -> Counts:
        """Its placed and its pending tasks."""
        counts = {shape: len(waiting) for shape, waiting in self.pending.items()}
        for shape, number in self.placed.items():
            counts[shape] = counts.get(shape, 0) + number
        return counts

    @property
    def unreplaced(self) -> Counts:
        """Its evicted tasks that have no successor: those that terminate, and those that are gone."""
        found = self.succession
        if found is None:
            return self.evicted
        counts = dict(self.evicted)
        for task in self.each_task() if found.replaced else ():
            if task.evicted and task.key in found.replaced:
                counts[task.shape] -= 1
        for one in found.awaited:
            counts[one.task.shape] = counts.get(one.task.shape, 0) + 1
        return {shape: number for shape, number in counts.items() if number}

    def unreplaced_tasks(self) -> list[Task]:
        """The tasks of ``unreplaced``."""
        leaving = evicted_without_successor(self) if self.evicted else []
        return leaving if self.succession is None else [*leaving, *(one.task for one in self.succession.awaited)]

    @property
    def unfinished_tasks(self) -> int:
        """How many tasks are placed or pending."""
        pending = self._pending
        return self.running + (len(pending) if isinstance(pending, tuple) else count_tasks(pending))

    @property
    def held(self) -> list[int]:
        """What its placed tasks request together, as a vector that ends with the last resource any of them names."""
        held = [0] * (PODS + 1)
        for shape, number in self.placed.items():
            for j, amount in shape.items:
                held.extend([0] * (j + 1 - len(held)))
                held[j] += amount * number
        return held

    def enter(self, task: Task) -> None:
        """Count a task, according to its status."""
        if not self._pending and not self._others:
            self.common_priority = task.priority
        elif self.common_priority != task.priority:
            self.common_priority = None
        status = task.status
        if status is TaskStatus.PENDING:
            self._await(task)
            return
        self._keep(task)
        if status.held:
            self.running += 1
            self.placed = _counted(self.placed, task.shape, 1)
            if status.shown:
                self.show(1)
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded += 1
            self.show(0)  # it may have been the last one to arrive
        elif status is TaskStatus.FAILED:
            self.show(0)
        elif task.evicted:
            self.evicted = _counted(self.evicted, task.shape, 1)

    def settle(self) -> None:
        """Hold few pending tasks in less memory, after the job has changed: it may wait for long now."""
        self._pending = together(self._pending)

    def _await(self, task: Task) -> None:
        pending = self._pending
        self.unsorted = self.unsorted or (bool(pending) and self.awaits(task.shape))
        self._pending = with_next(pending, task)

    def _keep(self, task: Task) -> None:
        if isinstance(self._others, tuple):
            if len(self._others) < FEW:
                self._others = (*self._others, task)
                return
            self._others = dict.fromkeys(self._others)
        self._others[task] = None

    def _drop(self, task: Task) -> None:
        if isinstance(self._others, tuple):
            at = self._others.index(task)
            self._others = (*self._others[:at], *self._others[at + 1 :])
        else:
            del self._others[task]
            if not self._others:
                self._others = ()

    def leave(self, task: Task) -> None:
        """Exactly undo ``enter``."""
        status = task.status
        if status is TaskStatus.PENDING:
            self._pending = without(self._pending, task)
            return
        self._drop(task)
        if status.held:
            self.running -= 1
            self.shown -= status.shown
            self.placed = _counted(self.placed, task.shape, -1)
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded -= 1
        elif task.evicted:
            self.evicted = _counted(self.evicted, task.shape, -1)

    def start(self, task: Task) -> None:
        """Mark a pending task as placed."""
        pending, others = self._pending, self._others
        group = pending[task.shape] if isinstance(pending, dict) else None
        if group is not None and len(group) > 1 and group[-1] is task:  # hot path of jobs with many tasks
            group.pop()
        else:
            self._pending = without(pending, task)
        if isinstance(others, dict):
            others[task] = None
        else:
            self._keep(task)
        self.running += 1
        self.placed = _counted(self.placed, task.shape, 1)

    def unstart(self, task: Task) -> None:
        """Exactly undo ``start``."""
        self._drop(task)
        self._pending = with_sorted(self._pending, task)
        self.running -= 1
        self.placed = _counted(self.placed, task.shape, -1)

    def evict(self, task: Task) -> None:
        """Mark a placed task as releasing: it no longer counts as held, nor as demand."""
        self.running -= 1
        self.shown -= task.status.shown
        self.placed = _counted(self.placed, task.shape, -1)
        self.evicted = _counted(self.evicted, task.shape, 1)

    def unevict(self, task: Task) -> None:
        """Exactly undo ``evict``."""
        self.evicted = _counted(self.evicted, task.shape, -1)
        self.placed = _counted(self.placed, task.shape, 1)
        self.running += 1
        self.shown += task.status.shown

    def show(self, more: int) -> None:
        """Count ``more`` tasks that the API shows as placed; the gang may be complete now."""
        self.shown += more
        had_their_place = self.shown + self.succeeded + self.spent
        if not self.gang_was_complete and self.spec is not None and had_their_place >= self.spec.min_member:
            self.gang_was_complete = not self.spec.min_task_member or self._roles_shown(self.spec.min_task_member)

    def _roles_shown(self, minimums: Mapping[str, int]) -> bool:
        over = (TaskStatus.SUCCEEDED, TaskStatus.FAILED) if self.spent else (TaskStatus.SUCCEEDED,)
        there = (task for task in self._others if task.status.shown or task.status in over)
        roles = Counter(task.spec.role for task in there)
        return all(roles[role] >= least for role, least in minimums.items())

    def sort_pending(self) -> None:
        """Group the pending tasks, and sort them in task order after some were added."""
        groups = self._pending = grouped(self._pending)
        if self.unsorted:
            sort_tasks(groups)
            self.unsorted = False

    def validate(self) -> None:
        """Check the accounts against the tasks."""
        fresh = Job(self.key)
        for task in self.each_task():
            assert task.job is self
            fresh.enter(task)
        assert fresh.placed == self.placed, f"{self.key}: placed tasks miscounted"
        assert fresh.evicted == self.evicted, f"{self.key}: evicted tasks miscounted"
        assert (fresh.running, fresh.succeeded, fresh.shown) == (self.running, self.succeeded, self.shown)
        if self.common_priority is not None:
            assert all(task.priority == self.common_priority for task in self.each_task())
        assert fresh.pending.keys() == self.pending.keys()
        for shape, waiting in self.pending.items():
            assert sorted(waiting, key=by_order) == sorted(fresh.pending[shape], key=by_order)
            if not self.unsorted:
                assert waiting == sorted(waiting, key=by_order, reverse=True), f"{self.key}: out of order"
        assert sum(map(len, self.pending.values())) == self.pending_count
        assert not _NO_COUNTS, "what all jobs share was changed"
        self._validate_succession()
        for counts in (self.placed, self.evicted):
            for shape, number in counts.items():
                assert shape.alone(number) == {shape: number}, "what jobs of one shape share was changed"

    def _validate_succession(self) -> None:
        found = self.succession
        if found is None:
            return
        assert found, f"{self.key}: keeps an empty succession"
        assert self.spec is not None or not found.awaited, f"{self.key}: expects pods without a PodGroup"
        leaving = {task.key for task in self.each_task() if task.evicted}
        assert found.replaced.keys() <= leaving, f"{self.key}: a replaced task does not terminate"
        assert all(one.task.spec.returns and one.task.shape.ask for one in found.awaited)

    def __repr__(self) -> str:
        return f"Job({self.key})"


def _counted(counts: Counts, shape: TaskShape, change: int) -> Counts:
    """The counts with so many tasks more of a shape: changed in place if they are of several shapes."""
    number = counts.get(shape, 0) + change
    shapes = len(counts)
    if shapes < 2:
        if shapes == 0 or shape in counts:
            return shape.alone(number) if number else _NO_COUNTS
        return {**counts, shape: number}
    if number:
        counts[shape] = number
        return counts
    del counts[shape]
    if shapes == 2:
        ((other, left),) = counts.items()
        return other.alone(left)
    return counts
