"""Which tasks of a job may start: those without dependencies, and those whose dependencies are far enough.

A task is far enough when the required number of its pods run and are ready, or have succeeded. A task that has pods has
started, whatever happens to its dependencies later.
"""

from __future__ import annotations

from pumice.controllers.jobs.pod_index import RUNNING, SUCCEEDED, PodIndex, PodRecord
from pumice.controllers.jobs.spec import Job, Task


def released(job: Job, members: PodIndex) -> frozenset[str]:
    """The names of the tasks that may start, or have started."""
    return frozenset(task.name for task in job.tasks if members.of(task) or _may_start(job, task, members))


def minimum(job: Job, may_start: frozenset[str]) -> int:
    """How many pods must start together now: tasks with unmet dependencies cannot contribute."""
    waiting = sum(task.least for task in job.tasks if task.name not in may_start)
    if not waiting:
        return job.min_available
    there = sum(task.replicas for task in job.tasks if task.name in may_start)
    return min(max(job.min_available - waiting, 1), there, job.min_available)


def _may_start(job: Job, task: Task, members: PodIndex) -> bool:
    if not task.waits_for:
        return True
    others = (other for name in task.waits_for if (other := job.task(name)) is not None)
    return (any if task.one_is_enough else all)(_is_under_way(other, members) for other in others)


def _is_under_way(task: Task, members: PodIndex) -> bool:
    return sum(_counts(member) for member in members.of(task)) >= task.least


def _counts(member: PodRecord) -> bool:
    if member.leaving:
        return False
    entries = (member.document.get("status") or {}).get("containerStatuses") or ()
    ready = all(entry.get("ready") for entry in entries)
    return member.phase == SUCCEEDED or (member.phase == RUNNING and ready)
