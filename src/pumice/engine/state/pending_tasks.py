"""The pending tasks of a job, by shape, and of each shape in task order.

Most jobs of a backlog have a few tasks: those are one tuple, the tasks of each shape next to each other. A job with
more of them has a list for each shape, in which the next to start is last. Both keep shapes in the order in which tasks
of them first came.
"""

from __future__ import annotations

from bisect import insort
from itertools import pairwise

from pumice.engine.state.task import Task, TaskOrder
from pumice.engine.state.task_shapes import TaskShape

Grouped = dict[TaskShape, list[Task]]
"""Pending tasks by shape; of each shape the next to start is last."""

Pending = tuple[Task, ...] | Grouped
"""The same, or the lists of all shapes one after the other: a job with few tasks needs no more."""

FEW = 4
"""Up to so many tasks are kept in a tuple."""


def grouped(pending: Pending) -> Grouped:
    """The tasks by shape."""
    if isinstance(pending, dict):
        return pending
    groups: Grouped = {}
    for task in pending:
        group = groups.get(task.shape)
        if group is None:
            groups[task.shape] = [task]
        else:
            group.append(task)
    return groups


def together(pending: Pending) -> Pending:
    """The tasks in a tuple, if they are few."""
    if isinstance(pending, dict) and count_tasks(pending) <= FEW:
        return tuple([task for group in pending.values() for task in group])
    return pending


def list_tasks(pending: Pending) -> list[Task]:
    """All tasks, shape by shape."""
    if isinstance(pending, dict):
        return [task for group in pending.values() for task in group]
    return list(pending)


def count_tasks(pending: Pending) -> int:
    """How many tasks there are."""
    if isinstance(pending, tuple):
        return len(pending)
    number = 0
    for group in pending.values():
        number += len(group)
    return number


def has_shape(pending: Pending, shape: TaskShape) -> bool:
    """Whether there is a task of a shape."""
    if isinstance(pending, dict):
        return shape in pending
    for task in pending:
        if task.shape is shape:
            return True
    return False


def with_next(pending: Pending, task: Task) -> Pending:
    """The tasks with one more, which becomes the next to start of its shape until they are sorted."""
    if isinstance(pending, tuple):
        if len(pending) < FEW:
            if not pending or pending[-1].shape is task.shape:
                return (*pending, task)
            at = _end_of(pending, task.shape)
            return (*pending[:at], task, *pending[at:])
        pending = grouped(pending)
    group = pending.get(task.shape)
    if group is None:
        pending[task.shape] = [task]
    else:
        group.append(task)
    return pending


def with_sorted(pending: Pending, task: Task) -> Pending:
    """The tasks with one more, in task order."""
    if isinstance(pending, tuple):
        if len(pending) < FEW:
            at = _end_of(pending, task.shape)
            while at and pending[at - 1].shape is task.shape and pending[at - 1].order < task.order:
                at -= 1
            return (*pending[:at], task, *pending[at:])
        pending = grouped(pending)
    group = pending.get(task.shape)
    if group is None:
        pending[task.shape] = [task]
    elif task.order < group[-1].order:
        group.append(task)
    else:
        insort(group, task, key=_backwards)
    return pending


def without(pending: Pending, task: Task) -> Pending:
    """The tasks without one: fast for the next of its shape."""
    if isinstance(pending, tuple):
        at = pending.index(task)
        return (*pending[:at], *pending[at + 1 :])
    group = pending[task.shape]
    if group[-1] is task:
        group.pop()
    else:
        group.remove(task)
    if group:
        return pending
    del pending[task.shape]
    return pending or ()


def sort_tasks(groups: Grouped) -> None:
    """Sort the tasks of each shape."""
    for shape, group in groups.items():
        if len(group) > 1:  # a new list, because one that grew task by task has room for more
            groups[shape] = sorted(group, key=by_order, reverse=True)


def in_sequence(groups: list[list[Task]]) -> bool:
    """Order sorted groups by their first tasks; returns whether each ends before the next begins, as most do."""
    if len(groups) > 1:
        groups.sort(key=_first_order)
        for before, after in pairwise(groups):
            if after[-1].order < before[0].order:
                return False
    return True


def _first_order(group: list[Task]) -> TaskOrder:
    return group[-1].order


def _end_of(tasks: tuple[Task, ...], shape: TaskShape) -> int:
    """The place behind the tasks of a shape, which is the end if there are none."""
    at = len(tasks)
    while at and tasks[at - 1].shape is not shape:
        at -= 1
    return at or len(tasks)


class _Backwards:
    """Reverses an order, for lists sorted largest first."""

    __slots__ = ("order",)

    def __init__(self, order: TaskOrder) -> None:
        self.order = order

    def __lt__(self, other: _Backwards) -> bool:
        return other.order < self.order


def _backwards(task: Task) -> _Backwards:
    return _Backwards(task.order)


def by_order(task: Task) -> TaskOrder:
    """Sorts tasks in task order."""
    return task.order
