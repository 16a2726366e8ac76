"""Lifecycle events of a job that policies may refer to, derived from the current state: none is lost or repeated.

A failed pod stays failed and yields its event on every reconcile until an action is taken; the action makes the pod an
old one, and old pods yield no events. A pod that vanished without a trace is detected by comparison with the counts in
the job's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.controllers.jobs.job_status import JobStatus
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.jobs.pod_index import (
    FAILED,
    FINISHED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    PodIndex,
    PodRecord,
)
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import Document


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A lifecycle event whose cause still exists."""

    event: str
    words: str
    since: float
    """When it happened; timeouts are measured from here."""
    task: Task | None = None
    index: int | None = None
    exit_code: int = 0
    passed: bool = False
    """Whether it is instantaneous: it does not last."""


def lifecycle_events(
    job: Job, standing: JobStatus, members: PodIndex, group: Document | None, minimum: int, now: float
) -> list[LifecycleEvent]:
    """All events, the oldest first."""
    found: list[LifecycleEvent] = []
    for task in job.tasks:
        pods = members.of(task)
        for pod in pods:
            found += _of_pod(task, pod)
        found += _of_task(task, pods)
        found += _vanished(task, pods, standing, now)
    found += _of_job(job, standing, members, group, minimum, now)
    return sorted(found, key=lambda happening: happening.since)


def _of_pod(task: Task, pod: PodRecord) -> Iterator[LifecycleEvent]:
    if pod.leaving:
        if pod.phase != SUCCEEDED:
            yield LifecycleEvent("PodEvicted", f"pod {pod.name} was deleted", pod.asked_to_leave, task, pod.index)
        return
    if pod.phase == FAILED:
        code = f" with exit code {pod.exit_code}" if pod.exit_code else ""
        yield LifecycleEvent("PodFailed", f"pod {pod.name} failed{code}", pod.ended, task, pod.index, pod.exit_code)
    elif pod.phase == PENDING:
        yield LifecycleEvent("PodPending", f"pod {pod.name} is pending", pod.created, task, pod.index)
    elif pod.phase == RUNNING:
        yield LifecycleEvent("PodRunning", f"pod {pod.name} is running", pod.started, task, pod.index)
    elif pod.phase == UNKNOWN:
        yield LifecycleEvent("Unknown", f"the state of pod {pod.name} is unknown", pod.started, task, pod.index)


def _of_task(task: Task, pods: list[PodRecord]) -> Iterator[LifecycleEvent]:
    staying = [pod for pod in pods if not pod.leaving]
    if task.replicas and sum(pod.phase == SUCCEEDED for pod in staying) == task.replicas:
        yield LifecycleEvent("TaskCompleted", f"task {task.name} completed", max(pod.ended for pod in staying), task)
    restarts = sum(pod.container_restarts for pod in staying if not pod.finished)
    if 0 <= task.max_retry < restarts:
        words = f"containers of task {task.name} were restarted {restarts} times"
        yield LifecycleEvent("TaskFailed", words, max(pod.started for pod in staying), task)


def _vanished(task: Task, pods: list[PodRecord], standing: JobStatus, now: float) -> Iterator[LifecycleEvent]:
    """Unfinished pods that existed before and are gone. Only the missing indices tell which they were."""
    shown = standing.shown.get(task.name, {})
    ended = sum(shown.get(phase, 0) for phase in FINISHED) - sum(pod.finished for pod in pods)
    gone = min(sum(shown.values()), task.replicas) - len(pods) - max(0, ended)
    if gone > 0:
        missing = sorted(set(range(task.replicas)) - {pod.index for pod in pods})
        words = f"{gone} pod{'s' if gone > 1 else ''} of task {task.name} disappeared"
        yield LifecycleEvent("PodEvicted", words, now, task, missing[0], passed=True)


def _of_job(
    job: Job, standing: JobStatus, members: PodIndex, group: Document | None, minimum: int, now: float
) -> Iterator[LifecycleEvent]:
    if job.heeds_updates and standing.generation and standing.generation != job.generation:
        yield LifecycleEvent("JobUpdated", "the spec of the job changed", now, passed=True)
    pods = [pod for pod in members.current.values() if not pod.leaving]
    running = sum(pod.phase == RUNNING for pod in pods)
    done = sum(pod.phase == SUCCEEDED for pod in pods)
    phase = ((group or {}).get("status") or {}).get("phase")
    if standing.phase is Phase.RUNNING and phase == UNKNOWN and 0 < running < minimum - done:
        broken = max((pod.ended for pod in pods if pod.phase != RUNNING), default=now)
        yield LifecycleEvent("Unknown", f"{running} pods are running, but minAvailable needs {minimum - done}", broken)
