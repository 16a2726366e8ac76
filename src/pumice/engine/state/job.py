"""A job (PodGroup) with the totals of its tasks, updated incrementally.

A job tracks its holdings, its remaining demand and its pending tasks, by shape and in task order. ``validate``
recomputes everything from scratch.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping

from pumice.engine.state.task import Task, TaskOrder
from pumice.engine.state.task_shapes import Rules, TaskShape
from pumice.model.specs import JobPhase, JobSpec, TaskStatus

_NONE_EVICTED: dict[TaskShape, int] = {}  # shared by all jobs, most of which never lose a task; never changed


class Job:
    """A PodGroup with its tasks. ``spec`` is None while only its pods are known."""

    __slots__ = (
        "evicted",
        "gang_was_complete",
        "held",
        "key",
        "pending",
        "phase",
        "rules",
        "running",
        "shown",
        "spec",
        "spent",
        "succeeded",
        "tasks",
        "unfinished",
        "unsorted",
    )

    def __init__(self, key: str, width: int) -> None:
        self.key = key
        self.spec: JobSpec | None = None
        self.phase = JobPhase.PENDING
        self.rules: Rules = ()  # node rules of plugins: part of the shapes of its tasks
        self.tasks: dict[str, Task] = {}
        self.held: list[int] = [0] * width
        self.unfinished: dict[TaskShape, int] = {}
        self.evicted = _NONE_EVICTED  # tasks that are releasing because we evicted them
        self.pending: dict[TaskShape, list[Task]] = {}  # the next to start is last
        self.unsorted = False
        self.running = 0  # tasks that are placed
        self.shown = 0  # those of them that the API has confirmed
        self.gang_was_complete = False  # whether the cluster has shown all of its minimum since it last held nothing
        self.spent = 0  # tasks that were placed and failed since it last held nothing
        self.succeeded = 0

    def enter(self, task: Task) -> None:
        """Count a task, according to its status."""
        self.tasks[task.key] = task
        status, shape = task.status, task.shape
        if status is TaskStatus.PENDING:
            self.pending.setdefault(shape, []).append(task)
            self.unsorted = True
        if status.unfinished:
            self.unfinished[shape] = self.unfinished.get(shape, 0) + 1
        if status.held:
            self.running += 1
            for j, amount in shape.items:
                self.held[j] += amount
            if status.shown:
                self.show(1)
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded += 1
            self.show(0)  # it may have been the last one to arrive
        elif status is TaskStatus.FAILED:
            self.show(0)
        elif task.evicted:
            self._count_evicted(shape, 1)

    def leave(self, task: Task) -> None:
        """Exactly undo ``enter``."""
        del self.tasks[task.key]
        status, shape = task.status, task.shape
        if status is TaskStatus.PENDING:
            waiting = self.pending[shape]
            waiting.remove(task)
            if not waiting:
                del self.pending[shape]
        if status.unfinished:
            self.unfinished[shape] -= 1
            if not self.unfinished[shape]:
                del self.unfinished[shape]
        if status.held:
            self.running -= 1
            self.shown -= status.shown
            for j, amount in shape.items:
                self.held[j] -= amount
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded -= 1
        elif task.evicted:
            self._count_evicted(shape, -1)

    def _count_evicted(self, shape: TaskShape, change: int) -> None:
        if self.evicted is _NONE_EVICTED:
            self.evicted = {}
        self.evicted[shape] = self.evicted.get(shape, 0) + change
        if not self.evicted[shape]:
            del self.evicted[shape]

    def start(self, task: Task) -> None:
        """Mark a pending task as placed: ``leave`` and ``enter`` in one, fast for the next of its shape."""
        waiting = self.pending[task.shape]
        if waiting[-1] is task:
            waiting.pop()
        else:
            waiting.remove(task)
        if not waiting:
            del self.pending[task.shape]
        self.running += 1
        held = self.held
        for j, amount in task.shape.items:
            held[j] += amount

    def unstart(self, task: Task) -> None:
        """Exactly undo ``start``."""
        waiting = self.pending.setdefault(task.shape, [])
        if not waiting or task.order < waiting[-1].order:
            waiting.append(task)
        else:
            insort(waiting, task, key=_backwards)
        self.running -= 1
        held = self.held
        for j, amount in task.shape.items:
            held[j] -= amount

    def evict(self, task: Task) -> None:
        """Mark a placed task as releasing: it no longer counts as held, nor as demand."""
        shape = task.shape
        self.running -= 1
        self.shown -= task.status.shown
        self.unfinished[shape] -= 1
        if not self.unfinished[shape]:
            del self.unfinished[shape]
        for j, amount in shape.items:
            self.held[j] -= amount
        self._count_evicted(shape, 1)

    def unevict(self, task: Task) -> None:
        """Exactly undo ``evict``."""
        shape = task.shape
        self._count_evicted(shape, -1)
        self.running += 1
        self.shown += task.status.shown
        self.unfinished[shape] = self.unfinished.get(shape, 0) + 1
        for j, amount in shape.items:
            self.held[j] += amount

    def show(self, more: int) -> None:
        """Count ``more`` tasks that the API shows as placed; the gang may be complete now."""
        self.shown += more
        had_their_place = self.shown + self.succeeded + self.spent
        if not self.gang_was_complete and self.spec is not None and had_their_place >= self.spec.min_member:
            self.gang_was_complete = not self.spec.min_task_member or self._roles_shown(self.spec.min_task_member)

    def _roles_shown(self, minimums: Mapping[str, int]) -> bool:
        over = (TaskStatus.SUCCEEDED, TaskStatus.FAILED) if self.spent else (TaskStatus.SUCCEEDED,)
        there = (task for task in self.tasks.values() if task.status.shown or task.status in over)
        roles = Counter(task.spec.role for task in there)
        return all(roles[role] >= least for role, least in minimums.items())

    def sort_pending(self) -> None:
        """Sort the pending tasks in task order after some were added."""
        if self.unsorted:
            for waiting in self.pending.values():
                waiting.sort(key=_by_order, reverse=True)
            self.unsorted = False

    def widen(self, width: int) -> None:
        """Extend all vectors for resources that were registered later."""
        self.held.extend([0] * (width - len(self.held)))

    def validate(self, width: int) -> None:
        """Check the accounts against the tasks."""
        fresh = Job(self.key, width)
        for task in self.tasks.values():
            assert task.job is self
            fresh.enter(task)
        assert fresh.held == self.held, f"{self.key} holds {fresh.held}, accounts say {self.held}"
        assert fresh.unfinished == self.unfinished, f"{self.key}: unfinished tasks miscounted"
        assert fresh.evicted == self.evicted, f"{self.key}: evicted tasks miscounted"
        assert (fresh.running, fresh.succeeded, fresh.shown) == (self.running, self.succeeded, self.shown)
        assert fresh.pending.keys() == self.pending.keys()
        for shape, waiting in self.pending.items():
            assert sorted(waiting, key=_by_order) == sorted(fresh.pending[shape], key=_by_order)
            if not self.unsorted:
                assert waiting == sorted(waiting, key=_by_order, reverse=True), f"{self.key}: out of order"

    def __repr__(self) -> str:
        return f"Job({self.key})"


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
