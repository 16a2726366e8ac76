"""Charges the share tree and updates the node table when a task starts or stops counting as usage.

``ClusterState`` calls these two methods around every change of a task that an event causes. Transactions account for
their own changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.specs import TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.state.cluster_node import ClusterNode
    from pumice.engine.state.task import Task


class UsageAccounting:
    """Keeps the accounts in line with the tasks of a cluster state."""

    __slots__ = ("_context",)

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context

    def task_entered(self, task: Task) -> None:
        """Account for a task that has just got its present status."""
        context = self._context
        if task.status.held and task.job is not None:
            leaf = context.tree.jobs.get(task.job.key)
            if leaf is not None and leaf.job is task.job:
                context.changes.usage = True
                context.order.charge(leaf, task.shape.ask, task.started, 1, task.owed)
        if task.status.has_node and task.node is not None:
            context.last_start = max(context.last_start, task.started)
            context.changes.pods = True
            context.nodes.touch(task.node)
            if task.status is TaskStatus.PIPELINED:
                context.pipelined.tasks[task] = None
            elif task.status is TaskStatus.RELEASING and task.node.waiting:
                capacity_freed(context, task.node)  # tasks pipelined there claim less of the idle capacity
            for plugin in context.policy.followers:
                plugin.placed(task, task.node)

    def task_leaving(self, task: Task) -> None:
        """Undo the accounting of a task whose status is about to change."""
        context = self._context
        if task.status.held and task.job is not None:
            leaf = context.tree.jobs.get(task.job.key)
            if leaf is not None and leaf.job is task.job:
                context.changes.usage = True
                context.order.uncharge(leaf, task.shape.ask, task.started, 1, task.owed)
        if task.status.has_node and task.node is not None:
            context.pipelined.tasks.pop(task, None)
            capacity_freed(context, task.node)
            for plugin in context.policy.followers:
                plugin.removed(task, task.node)


def capacity_freed(context: SchedulingContext, node: ClusterNode) -> None:
    """Record that a node may have more free capacity than before."""
    context.changes.pods = True
    if (index := context.nodes.touch(node)) >= 0:
        context.changes.freed_nodes[index] = None
