"""The end of a cycle: phases of jobs, and conditions for those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.accounts import Job
from pumice.model.objects import JobPhase
from pumice.scheduling.decisions import Bind, Condition, QueueCondition

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def conclude(engine: Engine) -> None:
    """Say what changed about the jobs that this cycle moved or could not serve."""
    _tell_queues(engine)
    started = {decision.job for decision in engine.decisions if isinstance(decision, Bind)}
    for key in started:
        engine.state.jobs[key].phase = phase_of(engine.state.jobs[key])
    for leaf, reason in engine.candidates.blocked.items():
        key = leaf.job.key
        if leaf.able or leaf.unit is None or engine.conditions.get(key) == reason:
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
    """Queues in which nothing may start, and those in which it may again."""
    told, refused = engine.queue_conditions, engine.refused_queues
    if told != refused:
        for queue in sorted(told.keys() | refused.keys()):
            if told.get(queue) != refused.get(queue):
                engine.decisions.append(QueueCondition(queue, refused.get(queue, "")))
        engine.queue_conditions = dict(refused)


def phase_of(job: Job) -> JobPhase:
    """The phase that a job's tasks amount to."""
    unfinished = sum(job.unfinished.values())
    if job.tasks and not unfinished:
        return JobPhase.COMPLETED
    minimum = min(job.spec.min_member if job.spec is not None else 1, len(job.tasks))
    if job.running and job.running + job.succeeded >= minimum:
        return JobPhase.RUNNING
    if job.running:
        return JobPhase.UNKNOWN
    return JobPhase.INQUEUE if job.phase is not JobPhase.PENDING else JobPhase.PENDING
