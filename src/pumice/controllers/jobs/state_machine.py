"""The next transition of a job. Commands come first, then policies, then the state of its pods.

One transition at a time: each is written before the next is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pumice.controllers.jobs.dependencies import minimum, released
from pumice.controllers.jobs.job_status import WAITS_FOR_JOBS, Counts, JobStatus, count
from pumice.controllers.jobs.lifecycle_events import LifecycleEvent, lifecycle_events
from pumice.controllers.jobs.phases import AFTER, RESTART, RESTART_POD, RESTART_TASK, RESTARTS_PART, SETTLES, Phase
from pumice.controllers.jobs.plugins import plugin_problems
from pumice.controllers.jobs.pod_index import RUNNING, SUCCEEDED, PodIndex, scopes
from pumice.controllers.jobs.policies import due
from pumice.controllers.jobs.spec import Job
from pumice.kube.resources import Document

# Reasons of Events as Volcano's job controller names them: alerts and tests look for them.
EXECUTE_ACTION: Final = "ExecuteAction"
PLUGIN_ERROR: Final = "PluginError"
POD_GROUP_PENDING: Final = "PodGroupPending"
UPSTREAM_ENDS: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
"""Phases in which a job has ended for those that start after it; a suspended job may be resumed."""


@dataclass(frozen=True, slots=True)
class JobTransition:
    """A transition of a job."""

    standing: JobStatus
    says: tuple[tuple[str, str], ...] = ()
    """Reason and message of Events."""
    again: float | None = None
    """When an action may become due."""
    obeyed: Document | None = None
    """The Command that this transition executes."""


def next_transition(
    job: Job,
    standing: JobStatus,
    members: PodIndex,
    group: Document | None,
    commands: Sequence[Document],
    now: float,
    upstream: Mapping[str, str] | None = None,
) -> JobTransition:
    """The next transition of a job, or none."""
    looked_at = replace(standing, generation=job.generation if job.heeds_updates else 0)
    if standing.phase is None:
        return JobTransition(replace(looked_at, phase=Phase.PENDING), tuple(_initial_events(job)))
    if commands:
        return _apply_command(job, looked_at, commands[0])
    if standing.phase is Phase.PENDING and job.after and not standing.may_start:
        return _after_others(job, looked_at, upstream or {})
    if standing.phase.is_active:
        least = minimum(job, released(job, members))
        happened = lifecycle_events(job, standing, members, group, least, now) if job.has_policies else []
        found = due(job, happened, now)
        for action, about in found.now:
            moved = apply_action(job, looked_at, action, about)
            if moved is not None:
                reason = moved.reason if moved.phase is Phase.FAILED else EXECUTE_ACTION
                return JobTransition(moved, ((reason, moved.message),))
        concluded = _concluded(job, looked_at, members, least)
        return JobTransition(concluded, (*_said(standing, concluded), *_why_pending(concluded, group)), found.next)
    concluded = _settled(job, looked_at, members)
    return JobTransition(concluded, _said(standing, concluded))


def _after_others(job: Job, standing: JobStatus, upstream: Mapping[str, str]) -> JobTransition:
    """Let a job start after the jobs that it names, or fail if it can never start."""
    waiting = []
    for other in job.after:
        phase = upstream.get(other.name)
        if phase is None or phase in UPSTREAM_ENDS:
            if other.must_complete and phase != Phase.COMPLETED:
                ended = f"ended with phase {phase}" if phase else "does not exist"
                words = f"starts only after job {other.name} has completed, but that job {ended}"
                return JobTransition(
                    _over(standing, Phase.FAILED, "DependencyFailed", words), (("DependencyFailed", words),)
                )
        else:
            waiting.append(f"job {other.name} ({phase}) to {'complete' if other.must_complete else 'end'}")
    if waiting:
        words = f"waits for {' and '.join(waiting)}"
        return JobTransition(replace(standing, reason=WAITS_FOR_JOBS, message=words))
    return JobTransition(replace(standing, may_start=True, reason="", message=""))


def _initial_events(job: Job) -> Iterator[tuple[str, str]]:
    """Events to record for a new job."""
    for problem in plugin_problems(job):
        yield PLUGIN_ERROR, problem


def _why_pending(standing: JobStatus, group: Document | None) -> Iterator[tuple[str, str]]:
    """The Event that tells, on the job, why the scheduler cannot start its podgroup."""
    if standing.phase is not Phase.PENDING or group is None:
        return
    for condition in (group.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True":
            yield POD_GROUP_PENDING, f"PodGroup {group['metadata']['name']} cannot start: {condition.get('message')}"


def _said(before: JobStatus, after: JobStatus) -> tuple[tuple[str, str], ...]:
    return ((after.reason, after.message),) if after.phase is not before.phase and after.reason else ()


def _apply_command(job: Job, standing: JobStatus, command: Document) -> JobTransition:
    """Apply a Command. One left over by a crash has no effect in the phase that it has led to."""
    assert standing.phase is not None
    action, why = command.get("action") or "", command.get("message") or command.get("reason") or ""
    moved = apply_action(
        job,
        standing,
        action,
        LifecycleEvent("CommandIssued", "requested by a Command" + (f": {why}" if why else ""), 0.0),
    )
    if moved is not None:
        return JobTransition(moved, ((moved.reason, moved.message),), obeyed=command)
    obeyed = any(standing.phase is ways.get(action) for ways in AFTER.values())
    words = f"{action} has no effect on a job in phase {standing.phase.value}"
    return JobTransition(standing, () if obeyed else (("CommandIgnored", words),), obeyed=command)


def apply_action(job: Job, standing: JobStatus, action: str, about: LifecycleEvent) -> JobStatus | None:
    """The transition for an action; None if it has no effect."""
    assert standing.phase is not None
    words = f"{action}: {about.words}"
    if action in RESTARTS_PART:
        scope = _scope(action, about)
        if scope is None or not standing.phase.is_active:
            return None
        restarts = {**standing.restarts, scope: standing.restarts.get(scope, 0) + 1}
        moved = replace(standing, reason=about.event, restarts=restarts)
    else:
        goal = AFTER.get(standing.phase, {}).get(action)
        if goal is None:
            return None
        moved = replace(standing, phase=goal, reason=about.event, message=words)
        if goal is Phase.RESTARTING:
            moved = replace(moved, version=standing.version + 1, restarts={})
        if action != RESTART:
            return moved
    again = standing.retries + 1
    if again < job.max_retry:
        return replace(moved, retries=again, message=f"{words}; restart {again}")
    # The version is not raised: finished pods stay for inspection.
    words = f"all {job.max_retry} retries (maxRetry) are used: {words}"
    return replace(standing, phase=Phase.FAILED, reason="MaxRetry", message=words, retries=job.max_retry)


def _scope(action: str, about: LifecycleEvent) -> str | None:
    """The scope of a partial restart."""
    if about.task is None:
        return None
    if action == RESTART_TASK or about.index is None:
        return about.task.name
    around = scopes(about.task, about.index)
    if action == RESTART_POD:
        return around[-1]
    return around[-2]  # without partitions, the task


def _concluded(job: Job, standing: JobStatus, members: PodIndex, least: int) -> JobStatus:
    """The phase of a job that is not being stopped: pending, running or finished."""
    counts = count(job, members)
    succeeded, running = counts.phases.get(SUCCEEDED, 0), counts.phases.get(RUNNING, 0)
    if standing.phase is Phase.PENDING:
        if running + counts.finished >= least:
            return replace(standing, phase=Phase.RUNNING, reason="", message="")
        return standing
    if job.min_success is not None and succeeded >= job.min_success:
        return _over(
            standing, Phase.COMPLETED, "MinSuccess", f"{succeeded} pods succeeded; minSuccess is {job.min_success}"
        )
    if not job.replicas or counts.active:
        return standing
    stuck = counts.finished < job.replicas
    if stuck:
        waiting = [task.name for task in job.tasks if task.name not in released(job, members)]
        made = sum(task.replicas for task in job.tasks if task.name not in waiting)
        if not waiting or counts.finished < made:
            return standing
        words = f"the tasks on which {', '.join(waiting)} depend ended without success"
        return _over(standing, Phase.FAILED, "DependencyFailed", words)
    return _judged(job, standing, counts, succeeded)


def _judged(job: Job, standing: JobStatus, counts: Counts, succeeded: int) -> JobStatus:
    """Whether a job whose pods have all finished is complete or has failed."""
    if job.min_success is not None:
        words = f"{succeeded} pods succeeded, but minSuccess is {job.min_success}"
        return _over(standing, Phase.FAILED, "MinSuccess", words)
    if job.min_available >= sum(task.least for task in job.tasks):
        for task in job.tasks:
            good = counts.tasks[task.name].get(SUCCEEDED, 0)
            if task.says_least and good < task.least:
                words = f"{good} pods of task {task.name} succeeded, but its minAvailable is {task.least}"
                return _over(standing, Phase.FAILED, "TaskFailed", words)
    if succeeded >= job.min_available:
        words = f"{succeeded} of {job.replicas} pods succeeded"
        return _over(standing, Phase.COMPLETED, "Succeeded", words)
    words = f"{succeeded} pods succeeded, but minAvailable is {job.min_available}"
    return _over(standing, Phase.FAILED, "PodFailed", words)


def _over(standing: JobStatus, phase: Phase, reason: str, message: str) -> JobStatus:
    return replace(standing, phase=phase, reason=reason, message=message)


def _settled(job: Job, standing: JobStatus, members: PodIndex) -> JobStatus:
    """The phase of a job that is being stopped or restarted."""
    assert standing.phase is not None
    if standing.phase is Phase.RESTARTING:
        # One pod that does not terminate must not block all the others.
        if job.replicas - len(members.old) >= job.min_available:
            return replace(standing, phase=Phase.PENDING)
    elif standing.phase in SETTLES and not count(job, members).active:
        return replace(standing, phase=SETTLES[standing.phase])
    return standing
