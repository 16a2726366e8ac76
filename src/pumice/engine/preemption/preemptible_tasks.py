"""Preemptible tasks: every task that may be evicted at all, for any preemptor. Collected once per preempting action.

Excluded are system-critical tasks, tasks that declare themselves non-preemptable, tasks that started or failed to be
evicted a short time ago, and tasks that a plugin protects. If time alone makes a task preemptible, the collection knows
when.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.state.task import Task
from pumice.model.specs import TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


class ReverseOrder:
    """Reverses an order: of equal tasks, the one that would start last is evicted first."""

    __slots__ = ("order",)

    def __init__(self, order: tuple[int, int, int, str, str]) -> None:
        self.order = order

    def __lt__(self, other: ReverseOrder) -> bool:
        return other.order < self.order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReverseOrder) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)


VictimEntry = tuple[int, int, ReverseOrder, Task, JobNode]
"""Priority, negated start time, place in its job; the task and its job."""


class PreemptibleTasks:
    """The preemptible tasks of the given jobs, by job, and the jobs that have any below each node of the share tree."""

    def __init__(self, context: SchedulingContext, leaves: Iterable[JobNode], min_runtime: int = 0) -> None:
        self._context = context
        self._min_runtime = min_runtime
        self.next_eligible_at: int | None = None  # when the first temporarily protected task becomes preemptible
        self.tasks: dict[JobNode, list[Task]] = {}
        self._below: dict[ShareNode, list[JobNode]] = {}
        self._binding: dict[ShareNode, None] = {}
        for leaf in leaves:
            going = [task for task in leaf.job.each_task() if self._may_go(task)]
            binding = leaf.job.running > leaf.job.shown and self._has_eligible_binding(leaf)
            if going:
                self.tasks[leaf] = going
            node: ShareNode | None = leaf if going or binding else None
            while node is not None:
                if going:
                    self._below.setdefault(node, []).append(leaf)
                if binding:
                    self._binding[node] = None
                node = node.parent
        self._going = {task for tasks in self.tasks.values() for task in tasks}
        self._in_order: dict[ShareNode, list[VictimEntry]] = {}
        self.exhausted: set[JobNode] = set()  # jobs that no preemptor of the action can take anything from any more

    def __contains__(self, task: object) -> bool:
        return task in self._going

    def below(self, node: ShareNode) -> list[JobNode]:
        """The jobs below a node that have preemptible tasks."""
        return self._below.get(node, [])

    def awaits_binding(self, level: ShareNode) -> bool:
        """Whether a task below a node becomes preemptible as soon as its binding is confirmed."""
        return level in self._binding

    def in_order(self, parent: ShareNode) -> list[VictimEntry]:
        """The tasks of the jobs directly below a node: the lowest priority first, then the shortest runtime."""
        found = self._in_order.get(parent)
        if found is None:
            found = self._in_order[parent] = sorted(
                (task.priority, -task.started, ReverseOrder(task.order), task, leaf)
                for leaf in self.below(parent)
                for task in self.tasks[leaf]
            )
        return found

    def drop_unusable(self, parent: ShareNode) -> None:
        """Forget the tasks below a node that have been evicted or belong to exhausted jobs.

        Otherwise every search would pass over all victims of the searches before it. Call this only while no eviction
        is tentative.
        """
        self._in_order[parent] = [
            entry
            for entry in self._in_order[parent]
            if entry[4] not in self.exhausted and is_running(self._context, entry[3])
        ]

    def _has_eligible_binding(self, leaf: JobNode) -> bool:
        """Whether a job has a task that only the missing confirmation of its binding protects."""
        context = self._context
        return any(
            task.status is TaskStatus.BINDING
            and task not in context.decided.bound
            and task.preemptable
            and not task.is_system_critical
            and task.started + self._min_runtime <= context.now
            and context.policy.evictable(task)
            for task in leaf.job.each_task()
        )

    def _may_go(self, task: Task) -> bool:
        context = self._context
        if not is_running(context, task) or not task.preemptable or task.is_system_critical:
            return False
        # A task bound in this cycle loses no work: its binding is withdrawn before it is sent. No cooldown protects it.
        until = (
            0
            if task in context.decided.bound
            else max(task.started + self._min_runtime, context.eviction_backoff.retry_at(task.key))
        )
        if until > context.now:
            self.next_eligible_at = until if self.next_eligible_at is None else min(self.next_eligible_at, until)
            return False
        return context.policy.evictable(task)


def is_running(context: SchedulingContext, task: Task) -> bool:
    """Whether a task holds a node that it can give up: it is bound, or was assigned its node in this cycle."""
    status = task.status
    return (
        status is TaskStatus.RUNNING
        or status is TaskStatus.BOUND
        or (status is TaskStatus.BINDING and task in context.decided.bound)
    )
