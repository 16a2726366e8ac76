"""The end of a cycle: the phases of jobs, and conditions for those that wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.engine.decisions import Bind, Evict
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.shared_vectors import shared_vector
from pumice.engine.state.job import Job
from pumice.model.specs import JobPhase, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def publish_status(context: SchedulingContext) -> None:
    """Update the phases and conditions of the jobs that this cycle moved or could not serve."""
    _publish_queue_conditions(context)
    started: set[str] = set()
    moved: set[str] = set()
    for decision in context.decided.decisions:
        if isinstance(decision, Bind):
            started.add(decision.job)
        elif isinstance(decision, Evict):
            moved.add(decision.job)
    moved |= started
    waiting = Counter(task.job for task in context.pipelined.tasks)
    for key in moved:
        job = context.state.jobs[key]
        job.phase = phase_of(job, waiting[job])
        _settle(context, job)
    context.unstartable.report_obstacles(context)
    for leaf, reason in context.candidates.blocked_jobs.take(lambda leaf: _no_turn(context, leaf)):
        key = leaf.job.key
        if leaf.waiting_line is None and context.decided.conditions.get(key) == reason:
            continue  # most jobs that wait alone know it already
        if leaf.placeable or leaf.unit is None:
            continue
        if context.unstartable.is_reported(key) or key in context.partial_gangs:  # those conditions are more specific
            continue
        context.decided.condition_once(key, "NotEnoughResources", reason)
        if leaf.waiting_line is not None:
            leaf.waiting_line.hear(leaf, reason)
    for key in sorted(started & context.decided.conditions.keys()):
        leaf = context.tree.jobs[key]
        if leaf.unit is None:
            del context.decided.conditions[key]
            context.decided.condition(key, "Scheduled", "Scheduled", "all tasks are scheduled")


def _settle(context: SchedulingContext, job: Job) -> None:
    """Hold a job that was served in less memory: it may run, and its other tasks may wait, for long."""
    job.settle()
    leaf = context.tree.jobs.get(job.key)
    if leaf is not None:
        leaf.held = shared_vector(tuple(leaf.held))


def _publish_queue_conditions(context: SchedulingContext) -> None:
    """Report the queues in which nothing may start, other conditions of queues, and the conditions that ended."""
    notes = {
        (queue, "Halted"): why for queue, why in context.sync.refused_queues.items()
    } | context.policy.queue_notes()
    context.decided.set_queue_conditions({f"{queue}/{kind}": note for (queue, kind), note in notes.items()})


def _no_turn(context: SchedulingContext, leaf: JobNode) -> str:
    """For a gang entitled to less than it must start with: a note that it runs only on idle capacity."""
    unit = leaf.unit
    if unit is None or leaf.gang <= 1 or leaf.started or context.order.is_owed(leaf, unit.ask):
        return ""
    return (
        f"; the job is entitled to {leaf.target:.1f} tasks but must start {leaf.gang} together, so it starts only on "
        "capacity that others leave idle"
    )


def phase_of(job: Job, waiting: int = 0) -> JobPhase:
    """The phase that follows from a job's tasks; ``waiting`` of those it holds are only pipelined."""
    over = job.task_count and not job.unfinished_tasks
    if over and all(task.status.value > TaskStatus.RELEASING for task in job.each_task()):
        return JobPhase.COMPLETED
    minimum = job.spec.min_member if job.spec is not None else 1
    running = job.running - waiting
    if running and running + job.succeeded >= minimum:
        return JobPhase.RUNNING
    # A pod that its owner or a user deletes runs until it is gone. One that we evict does not count: the phase must
    # tell before the eviction that the gang is no longer complete.
    terminating = [task for task in job.each_task() if task.status is TaskStatus.RELEASING and not task.evicted]
    if terminating and running + job.succeeded + len(terminating) >= minimum:
        return JobPhase.RUNNING
    if running:
        return JobPhase.UNKNOWN
    return JobPhase.INQUEUE if job.phase is not JobPhase.PENDING else JobPhase.PENDING
