"""The pool: every task that may go at all, whoever takes. It is gathered once an action, when somebody wants to take.

Not in it: what keeps the cluster alive, what does not let itself be preempted, what has only just started or could not
be evicted lately, what a plugin spares. When time alone would change that, the pool says from when on.
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
    """Tasks of these jobs that may go, by job, and which jobs have some below each node of the tree."""

    def __init__(self, context: SchedulingContext, leaves: Iterable[JobNode], min_runtime: int = 0) -> None:
        self._context = context
        self._min_runtime = min_runtime
        self.next_eligible_at: int | None = None  # when the first of those joins who are spared for a time only
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
        """The jobs below a node that have tasks in the pool."""
        return self._below.get(node, [])

    def _may_go(self, task: Task) -> bool:
        context = self._context
        if not is_running(context, task) or not task.preemptable or task.is_system_critical:
            return False
        # One that got its place in this cycle loses no work: it is as if it had never had it.
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
    """Whether a task has a place that it can be asked for: it has it for good, or got it in this cycle."""
    status = task.status
    return (
        status is TaskStatus.RUNNING
        or status is TaskStatus.BOUND
        or (status is TaskStatus.BINDING and task in context.decided.bound)
    )
