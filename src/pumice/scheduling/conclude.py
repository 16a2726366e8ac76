"""The end of a cycle: phases of jobs, and conditions for those that wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.fairness.tree import JobNode
from pumice.model.accounts import Job
from pumice.model.objects import JobPhase, TaskStatus
from pumice.scheduling.decisions import Bind, Condition, Evict, QueueCondition

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def conclude(engine: Engine) -> None:
    """Say what changed about the jobs that this cycle moved or could not serve."""
    _tell_queues(engine)
    started: set[str] = set()
    moved: set[str] = set()
    for decision in engine.decisions:
        if isinstance(decision, Bind):
            started.add(decision.job)
        elif isinstance(decision, Evict):
            moved.add(decision.job)
    moved |= started
    waiting = Counter(task.job for task in engine.pipelined)
    for key in moved:
        job = engine.state.jobs[key]
        job.phase = phase_of(job, waiting[job])
    engine.unstartable.review(engine)
    for leaf, lacks in engine.candidates.blocked.items():
        reason = lacks + _no_turn(engine, leaf)
        key = leaf.job.key
        if leaf.able or leaf.unit is None or engine.conditions.get(key) == reason:
            continue
        if engine.unstartable.is_told(key):  # which says more than that there is no room now
            continue
        engine.conditions[key] = reason
        engine.decisions.append(Condition(key, "Unschedulable", "NotEnoughResources", reason))
    engine.candidates.blocked.clear()
    for key in sorted(started & engine.conditions.keys()):
        leaf = engine.tree.jobs[key]
        if leaf.unit is None:
            del engine.conditions[key]
            engine.decisions.append(Condition(key, "Scheduled", "Scheduled", "all its tasks have a place"))


def _tell_queues(engine: Engine) -> None:
    """Queues in which nothing may start, what else people should know about queues, and what of it is over."""
    notes = {(queue, "Halted"): why for queue, why in engine.refused_queues.items()} | engine.policy.queue_notes()
    told, now = engine.queue_conditions, {f"{queue}/{kind}": note for (queue, kind), note in notes.items()}
    if told != now:
        for about in sorted(told.keys() | now.keys()):
            if told.get(about) != now.get(about):
                queue, _, kind = about.rpartition("/")
                engine.decisions.append(QueueCondition(queue, now.get(about, ""), kind))
        engine.queue_conditions = now


def _no_turn(engine: Engine, leaf: JobNode) -> str:
    """Of a gang that is entitled to less than it must start with: that it depends on what others leave."""
    unit = leaf.unit
    if unit is None or leaf.gang <= 1 or leaf.started or engine.order.owes(leaf, unit.ask):
        return ""
    return (
        f"; it must start {leaf.gang} tasks together and is entitled to {leaf.target:.1f}: it runs on what others leave"
    )


def phase_of(job: Job, waiting: int = 0) -> JobPhase:
    """The phase that a job's tasks amount to; so many of those it holds only wait for room that is being freed."""
    unfinished = sum(job.unfinished.values())
    if job.tasks and not unfinished and all(task.status.value > TaskStatus.RELEASING for task in job.tasks.values()):
        return JobPhase.COMPLETED
    minimum = min(job.spec.min_member if job.spec is not None else 1, len(job.tasks))
    running = job.running - waiting
    if running and running + job.succeeded >= minimum:
        return JobPhase.RUNNING
    if running:
        return JobPhase.UNKNOWN
    return JobPhase.INQUEUE if job.phase is not JobPhase.PENDING else JobPhase.PENDING
