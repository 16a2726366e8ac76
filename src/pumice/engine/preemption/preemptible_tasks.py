"""Preemptible tasks: every task that may be evicted at all, for any preemptor. Collected once per preempting action.

Excluded are system-critical tasks, tasks that declare themselves non-preemptable, tasks that started or failed to be
evicted a short time ago, and tasks that a plugin protects. If time alone makes a task preemptible, the collection knows
when.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode
from pumice.engine.state.task import Task
from pumice.model.specs import TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


class PreemptibleTasks:
    """The preemptible tasks of the given jobs, by job, and the jobs that have any below each node of the share tree."""

    def __init__(self, context: SchedulingContext, leaves: Iterable[JobNode], min_runtime: int = 0) -> None:
        self._context = context
        self._min_runtime = min_runtime
        self.next_eligible_at: int | None = None  # when the first temporarily protected task becomes preemptible
        self.tasks: dict[JobNode, list[Task]] = {}
        self._below: dict[ShareNode, list[JobNode]] = {}
        for leaf in leaves:
            going = [task for task in leaf.job.tasks.values() if self._may_go(task)]
            if going:
                self.tasks[leaf] = going
                node: ShareNode | None = leaf
                while node is not None:
                    self._below.setdefault(node, []).append(leaf)
                    node = node.parent
        self._going = {task for tasks in self.tasks.values() for task in tasks}

    def __contains__(self, task: object) -> bool:
        return task in self._going

    def below(self, node: ShareNode) -> list[JobNode]:
        """The jobs below a node that have preemptible tasks."""
        return self._below.get(node, [])

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
