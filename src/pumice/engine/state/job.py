"""A job (PodGroup) with the totals of its tasks, updated incrementally.

A job tracks its pending tasks, in task order, and counts those that are placed, each by shape. Its holdings and its
remaining demand follow from that; its tasks are the pending ones and the others. ``validate`` recomputes everything
from scratch.

There may be a million waiting jobs: a job has no container of its own for what it does not have.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping

from kubebase.resource_vector import PODS
from pumice.engine.state.task import Task, TaskOrder
from pumice.engine.state.task_shapes import Rules, TaskShape
from pumice.model.specs import JobPhase, JobSpec, TaskStatus

Counts = dict[TaskShape, int]
"""Numbers of tasks, by shape; none is 0."""

_NO_COUNTS: Counts = {}  # shared by all jobs, as are the next; never changed
_NONE_PENDING: dict[TaskShape, list[Task]] = {}
_NO_OTHERS: dict[Task, None] = {}


class Job:
    """A PodGroup with its tasks. ``spec`` is None while only its pods are known."""

    __slots__ = (
        "_others",
        "evicted",
        "gang_was_complete",
        "key",
        "pending",
        "phase",
        "placed",
        "rules",
        "running",
        "shown",
        "spec",
        "spent",
        "succeeded",
        "unsorted",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.spec: JobSpec | None = None
        self.phase = JobPhase.PENDING
        self.rules: Rules = ()  # node rules of plugins: part of the shapes of its tasks
        self.placed = _NO_COUNTS  # tasks that it holds
        self.evicted = _NO_COUNTS  # tasks that are releasing because we evicted them
        self.pending = _NONE_PENDING  # the next to start is last
        self._others = _NO_OTHERS  # the tasks that are not pending
        self.unsorted = False
        self.running = 0  # tasks that are placed
        self.shown = 0  # those of them that the API has confirmed
        self.gang_was_complete = False  # whether the cluster has shown all of its minimum since it last held nothing
        self.spent = 0  # tasks that were placed and failed since it last held nothing
        self.succeeded = 0

    @property
    def tasks(self) -> dict[str, Task]:
        """Its tasks by key: a new dictionary each time, while ``each_task`` is cheap."""
        return {task.key: task for task in self.each_task()}

    def each_task(self) -> list[Task]:
        """All of its tasks: the pending ones first."""
        if len(self.pending) == 1:
            (waiting,) = self.pending.values()
            return [*waiting, *self._others]
        return [*[task for waiting in self.pending.values() for task in waiting], *self._others]

    @property
    def task_count(self) -> int:
        """How many tasks it has."""
        return sum(map(len, self.pending.values())) + len(self._others)

    @property
    def unfinished(self) -> Counts:
        """Its placed and its pending tasks."""
        counts = {shape: len(waiting) for shape, waiting in self.pending.items()}
        for shape, number in self.placed.items():
            counts[shape] = counts.get(shape, 0) + number
        return counts

    @property
    def unfinished_tasks(self) -> int:
        """How many tasks are placed or pending."""
        return self.running + sum(map(len, self.pending.values()))

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

    def _await(self, task: Task) -> None:
        waiting = self.pending.get(task.shape)
        if waiting is not None:
            waiting.append(task)
            self.unsorted = True
        elif self.pending:
            self.pending[task.shape] = [task]
        else:
            self.pending = {task.shape: [task]}

    def _keep(self, task: Task) -> None:
        if self._others:
            self._others[task] = None
        else:
            self._others = {task: None}

    def _drop(self, task: Task) -> None:
        del self._others[task]
        if not self._others:
            self._others = _NO_OTHERS

    def leave(self, task: Task) -> None:
        """Exactly undo ``enter``."""
        status = task.status
        if status is TaskStatus.PENDING:
            self._await_no_more(task)
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

    def _await_no_more(self, task: Task) -> None:
        """Drop a pending task: fast for the next of its shape."""
        waiting = self.pending[task.shape]
        if waiting[-1] is task:
            waiting.pop()
        else:
            waiting.remove(task)
        if not waiting:
            del self.pending[task.shape]
            if not self.pending:
                self.pending = _NONE_PENDING

    def start(self, task: Task) -> None:
        """Mark a pending task as placed."""
        self._await_no_more(task)
        self._keep(task)
        self.running += 1
        self.placed = _counted(self.placed, task.shape, 1)

    def unstart(self, task: Task) -> None:
        """Exactly undo ``start``."""
        self._drop(task)
        waiting = self.pending.get(task.shape)
        if waiting is None:
            self._await(task)
        elif task.order < waiting[-1].order:
            waiting.append(task)
        else:
            insort(waiting, task, key=_backwards)
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
        """Sort the pending tasks in task order after some were added."""
        if self.unsorted:
            for shape, waiting in self.pending.items():
                if len(waiting) > 1:  # a new list, because one that grew task by task has room for more
                    self.pending[shape] = sorted(waiting, key=_by_order, reverse=True)
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
        assert fresh.pending.keys() == self.pending.keys()
        for shape, waiting in self.pending.items():
            assert sorted(waiting, key=_by_order) == sorted(fresh.pending[shape], key=_by_order)
            if not self.unsorted:
                assert waiting == sorted(waiting, key=_by_order, reverse=True), f"{self.key}: out of order"
        assert not _NO_COUNTS and not _NONE_PENDING and not _NO_OTHERS, "what all jobs share was changed"

    def __repr__(self) -> str:
        return f"Job({self.key})"


def _counted(counts: Counts, shape: TaskShape, change: int) -> Counts:
    """The counts with so many tasks more of a shape: changed in place, unless they are those that all jobs share."""
    number = counts.get(shape, 0) + change
    if not counts:
        return {shape: number}
    if number:
        counts[shape] = number
        return counts
    del counts[shape]
    return counts or _NO_COUNTS


class _Backwards:
    """Reverses an order, for lists sorted largest first."""

    __slots__ = ("order",)

    def __init__(self, order: TaskOrder) -> None:
        self.order = order

    def __lt__(self, other: _Backwards) -> bool:
        return other.order < self.order


def _backwards(task: Task) -> _Backwards:
    return _Backwards(task.order)


def _by_order(task: Task) -> TaskOrder:
    return task.order
