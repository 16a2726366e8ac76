"""Which tasks of a job may start? Those that wait for no other, and those whose others are well under way.

A task is well under way when as many of its pods as it needs run and are ready, or have succeeded. One that has pods of
its own has started, whatever becomes of those it waited for.
"""

from __future__ import annotations

from pumice.controllers.jobs.pod_index import RUNNING, SUCCEEDED, PodIndex, PodRecord
from pumice.controllers.jobs.spec import Job, Task


def released(job: Job, members: PodIndex) -> frozenset[str]:
    """The names of the tasks that may start, or have."""
    return frozenset(task.name for task in job.tasks if members.of(task) or _may_start(job, task, members))


def minimum(job: Job, may_start: frozenset[str]) -> int:
    """How many pods must start together now: those of tasks that still wait for others cannot be among them."""
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
