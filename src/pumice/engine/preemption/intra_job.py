"""Preemption within a job: a job evicts tasks of its own for a waiting task of higher priority.

The job's share is not at stake: afterwards it may hold more than before only if it is owed the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.decisions import Evict, Sides
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.transaction import Eviction, Transaction
from pumice.model.specs import TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def preempt_within_jobs(context: SchedulingContext) -> None:
    """Serve every started job in which a waiting task has a higher priority than a running one."""
    if not context.policy.consent.tasks:
        return
    for unit in [unit for unit in context.candidates.units if not context.candidates.is_open(unit)]:
        for leaf in sorted(unit.waiting, key=lambda leaf: leaf.arrival):
            while leaf.unit is unit and leaf.started and unit.size == 1 and _swap(context, leaf, unit):
                pass


def _swap(context: SchedulingContext, leaf: JobNode, unit: AllocationUnit) -> bool:
    task = unit_tasks(leaf, unit)[0]
    if not context.state.task_preempts(task.spec):
        return False
    if all(other.priority >= task.priority for other in leaf.job.each_task()):
        return False
    by_node: dict[ClusterNode, list[Task]] = {}
    going = PreemptibleTasks(context, [leaf]).tasks.get(leaf, [])
    for other in sorted(going, key=lambda other: (other.priority, -other.started, other.order)):
        if other.priority < task.priority and _is_replaceable(other, task) and other.node is not None:
            by_node.setdefault(other.node, []).append(other)
    for node, others in by_node.items():
        transaction = Transaction(context)
        if _on_node(context, transaction, leaf, unit, node, others):
            transaction.commit((), lambda gone: _explain(leaf, task, gone))
            context.sync.refresh_leaf(leaf)
            return True
        transaction.discard()
    return False


def _is_replaceable(other: Task, task: Task) -> bool:
    """Whether ``other``'s role still has its minimum once ``task`` starts in its stead."""
    assert other.job is not None and other.job.spec is not None
    return other.spec.role == task.spec.role or other.spec.role not in other.job.spec.min_task_member


def _on_node(
    context: SchedulingContext,
    transaction: Transaction,
    leaf: JobNode,
    unit: AllocationUnit,
    node: ClusterNode,
    others: list[Task],
) -> bool:
    """Evict from a node as many tasks as needed; False if that is not enough or the job would exceed its share."""
    task, before = unit_tasks(leaf, unit)[0], list(leaf.held)
    index = context.nodes.index.get(node.name, -1)
    if index < 0 or not context.nodes.view(task.shape).mask[index]:
        return False
    for other in others:
        if not context.policy.evictable(other):
            continue
        transaction.evict(other)
        if all(node.future(j) >= amount for j, amount in task.shape.items) and context.nodes.allows(task.shape, index):
            break
    else:
        return False
    grows = any(leaf.held[j] + amount > before[j] for j, amount in unit.ask)
    if (grows and not context.order.is_owed(leaf, unit.ask)) or context.policy.allocatable(leaf, unit) is not None:
        return False
    stamp, owed = context.next_start_time(), context.order.is_owed(leaf, unit.ask)
    transaction.charge(leaf, unit.ask, stamp, 1, owed)
    transaction.pipeline(task, index, stamp, owed)
    for other in [gone.task for gone in transaction.evictions][:-1]:
        transaction.undo_evict(other)
        if any(node.future(j) < 0 for j in range(len(node.idle))):
            transaction.evict(other)
    return _can_go_on_with(context, task)


def _can_go_on_with(context: SchedulingContext, task: Task) -> bool:
    """Whether the job of a pipelined task can go on once this task runs."""
    assert task.job is not None
    task.status = TaskStatus.BINDING
    answer = context.policy.can_go_on(task.job)
    task.status = TaskStatus.PIPELINED
    return answer


def _explain(leaf: JobNode, task: Task, gone: Eviction) -> Evict:
    """Build the eviction decision; both sides are tasks of one job, and their priorities decided it."""
    keys = (float(task.priority), float(gone.task.priority))
    sides = Sides(leaf.path, task.spec.key, gone.task.spec.key, keys, keys, "priority")
    return Evict(gone.task.spec.key, gone.node.name, leaf.job.key, leaf.job.key, "preempt", sides)
