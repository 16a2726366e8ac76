"""Pipelined tasks: each waits on a node for capacity that is being freed, and binds as soon as it is.

The awaited capacity belongs to the pipelined task: ``ClusterNode.idle`` excludes it. A gang that has not started starts
as a whole, so its tasks wait for one another; a task beyond the minimum that finds room waits with them. A task returns
to pending if its capacity will not come (its node is lost or cordoned, or a victim keeps running) or if its queue no
longer starts jobs; so does the rest of a gang that could then not start.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import makes_a_gang
from pumice.engine.prepare.prepare_cycle import capacity_came
from pumice.engine.prepare.usage_accounting import capacity_freed
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.model.specs import TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


class PipelinedTasks:
    """The tasks pipelined to a node, and the victims they wait for."""

    __slots__ = ("awaited", "tasks")

    def __init__(self) -> None:
        self.tasks: dict[Task, None] = {}  #: exactly the tasks with status PIPELINED, in the order they were pipelined
        self.awaited: dict[str, tuple[str, ...]] = {}  #: keys of the victims that each task waits for, by task key

    def add(self, task: Task, victims: tuple[str, ...]) -> None:
        """Record that a task was pipelined and waits for these victims to leave."""
        self.tasks[task] = None
        self.awaited[task.key] = victims

    def remove(self, task: Task) -> None:
        """Drop a task that started or returned to pending."""
        self.tasks.pop(task, None)
        self.awaited.pop(task.key, None)

    def forget_started(self) -> None:
        """Drop the victims of tasks that events removed."""
        if len(self.awaited) > len(self.tasks):
            self.awaited = {task.key: self.awaited.get(task.key, ()) for task in self.tasks}

    def validate(self, state: ClusterState) -> None:
        """Check the invariant of ``tasks``."""
        assert set(self.tasks) == {task for task in state.tasks.values() if task.status is TaskStatus.PIPELINED}


Room = dict[ClusterNode, dict[int, int]]
"""Amounts by node and resource."""


def update_pipelined(context: SchedulingContext) -> None:
    """At the start of a cycle: return the hopeless tasks to pending, and start those whose capacity is free."""
    if context.pipelined.tasks:
        _send_back(context)
        start_pipelined(context)


def start_pipelined(context: SchedulingContext) -> None:
    """Bind the pipelined tasks whose capacity is free now, first come first served."""
    spoken_for: Room = {}  # free, but claimed by earlier tasks, whether they start now or keep waiting
    coming: Room = {}  # being released, and not claimed by earlier tasks that keep waiting
    ready: dict[Job, list[Task]] = {}
    for task in context.pipelined.tasks:
        assert task.job is not None
        if _has_room(context, task, spoken_for):
            ready.setdefault(task.job, []).append(task)
        else:
            _keep(task, spoken_for, coming)
    for job, tasks in ready.items():
        if _starts_with(context, job, tasks):
            for task in tasks:
                _start(context, task)


def must_wait(context: SchedulingContext, job: Job, tasks: Collection[Task]) -> bool:
    """Whether tasks that have room must wait for others of their gang, without which their job cannot start."""
    if not any(task.status is TaskStatus.PIPELINED for task in job.each_task()):
        return False
    return not _starts_with(context, job, tasks)


def _by_job(context: SchedulingContext) -> dict[Job, list[Task]]:
    jobs: dict[Job, list[Task]] = {}
    for task in context.pipelined.tasks:
        assert task.job is not None
        jobs.setdefault(task.job, []).append(task)
    return jobs


def _starts_with(context: SchedulingContext, job: Job, tasks: Collection[Task]) -> bool:
    """Whether a job has what it must start with once these pipelined tasks of it start as well."""
    seated = [task for task in job.each_task() if task.status.held and task.status is not TaskStatus.PIPELINED]
    return context.policy.job_valid(job) is None and makes_a_gang(
        job, [*seated, *tasks], context.policy.start_size(job)
    )


def _start(context: SchedulingContext, task: Task) -> None:
    node = task.node
    assert node is not None and task.job is not None
    context.state.promote(task)
    context.pipelined.remove(task)
    index = context.nodes.touch(node)
    context.nodes.capacity_lost(index, context.candidates.mark_infeasible)
    context.changes.usage_changed()
    context.decided.start_pipelined(task, node.name)


def _keep(task: Task, spoken_for: Room, coming: Room) -> None:
    """Claim free capacity for a task that keeps waiting: what it needs beyond what its node will free for it."""
    node = task.node
    assert node is not None
    freed, here = coming.setdefault(node, dict(enumerate(node.releasing))), spoken_for.setdefault(node, {})
    for j, amount in task.shape.items:
        later = min(amount, freed.get(j, 0))
        freed[j] = freed.get(j, 0) - later
        here[j] = here.get(j, 0) + amount - later


def _has_room(context: SchedulingContext, task: Task, taken: Room) -> bool:
    """Whether the capacity that a task waits for is free; if so, claims it in ``taken``."""
    node = task.node
    assert node is not None
    here = taken.get(node, {})
    if any(_is_leaving(context, victim) for victim in context.pipelined.awaited.get(task.spec.key, ())):
        return False
    if any(node.free(j) - here.get(j, 0) < amount for j, amount in task.shape.items):
        return False
    if task.shape.coupled and not context.allows_beside_others(task, node):
        return False
    mine = taken.setdefault(node, {})
    for j, amount in task.shape.items:
        mine[j] = mine.get(j, 0) + amount
    return True


def _is_leaving(context: SchedulingContext, victim: str) -> bool:
    """Whether a victim is still being released; its node may be free earlier, but its queue's quota is not."""
    task = context.state.tasks.get(victim)
    return task is not None and task.status is TaskStatus.RELEASING


def _send_back(context: SchedulingContext) -> None:
    """Return tasks to pending whose capacity will not come, the last pipelined first."""
    changed: dict[Job, None] = {}
    for task in reversed(list(context.pipelined.tasks)):
        node, job = task.node, task.job
        assert job is not None
        lost = node is None or not node.schedulable or not context.sync.may_start(job) or _a_victim_stays(context, task)
        if lost or (node is not None and any(node.future(j) < 0 for j, _ in task.shape.items)):
            _unpipeline(context, task)
            changed[job] = None
    for job, tasks in _by_job(context).items():
        if not _starts_with(context, job, tasks):
            for task in tasks:
                _unpipeline(context, task)
            changed[job] = None
    if changed:
        capacity_came(context)
    for job in changed:
        context.sync.refresh_job(job)


def _a_victim_stays(context: SchedulingContext, task: Task) -> bool:
    """Whether a victim that a task waits for keeps running; forgets the victims that are gone."""
    victims = [context.state.tasks.get(name) for name in context.pipelined.awaited.get(task.spec.key, ())]
    there = [victim for victim in victims if victim is not None and victim.status is not TaskStatus.PENDING]
    context.pipelined.awaited[task.spec.key] = tuple(v.spec.key for v in there if v.status is TaskStatus.RELEASING)
    return any(victim.status.held for victim in there)


def _unpipeline(context: SchedulingContext, task: Task) -> None:
    """Return a task to pending."""
    node = task.node
    assert node is not None and task.job is not None
    for plugin in context.policy.followers:
        plugin.removed(task, node)
    leaf, started, owed = context.tree.jobs.get(task.job.key), task.started, task.owed
    context.state.unplace(task)
    task.owed = True
    if leaf is not None:  # a job whose queue is gone is charged nowhere any more
        context.order.uncharge(leaf, task.shape.ask, started, 1, owed)
    context.pipelined.remove(task)
    capacity_freed(context, node)
