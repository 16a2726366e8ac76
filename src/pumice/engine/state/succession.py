"""Successors of evicted tasks: which exist, and which a controller has still to create (docs/fairness.md, section 3.1).

A task that we evicted counts as demand until its successor exists. While it terminates, it is a task of its job like
others; what is kept here is what its status does not tell: that its successor is there already, or that the task is
gone and its successor is not. Only tasks that a controller creates again have successors.

A new task of the job is the successor of the evicted one of the same name; else of the first one that was evicted and
requests the same. Nobody waits for ever: ``WAIT`` after the cycle that saw a task gone, no successor is expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.model.specs import JobSpec, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.state.job import Job
    from pumice.engine.state.task import Task

WAIT = 60_000_000
"""How long the successor of an evicted task is expected after the task is gone (microseconds of cluster time).

Long enough for a controller that is busy, or that backs off after its first failures.
"""


class Awaited:
    """An evicted task that is gone and has no successor."""

    __slots__ = ("since", "task")

    def __init__(self, task: Task, since: int | None = None) -> None:
        self.task = task  # as it was when it terminated
        self.since = since  # the first cycle without it; None: that has not run yet

    @property
    def until(self) -> int | None:
        """When its successor is not expected any more; None: that is not known yet."""
        return None if self.since is None else self.since + WAIT


class Succession:
    """The successors of a job's evicted tasks."""

    __slots__ = ("awaited", "replaced")

    def __init__(self) -> None:
        self.awaited: list[Awaited] = []  # the first one gone first
        self.replaced: dict[str, None] = {}  # by key, tasks that terminate and have a successor already

    def __bool__(self) -> bool:
        return bool(self.awaited or self.replaced)


def was_replaced(job: Job, task: Task) -> bool:
    """Whether a task that terminates has a successor already."""
    return job.succession is not None and task.key in job.succession.replaced


class Successions:
    """Follows the tasks of a cluster; ``jobs`` are those that may have a succession."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs: dict[Job, None] = {}

    def follow(self, before: Task | None, after: Task | None) -> None:
        """An event put one task in the place of another of the same name; None: there is none."""
        job = before.job if before is not None and before.evicted else None
        if before is not None and job is not None and (after is None or not after.evicted):
            # Another one has its name already, or it ended well and will not come again.
            settled = after is not None and after.status is not TaskStatus.FAILED
            _end(job, before, expected=before.spec.returns and not settled)
            self._note(job)
        if after is None or after.job is None or not after.status.unfinished:
            return
        if before is None or before.job is not after.job or before.status > TaskStatus.RELEASING:
            _come(after.job, after)
            self._note(after.job)

    def restore(self, job: Job, awaited: Iterable[Awaited]) -> None:
        """Expect what another engine expected of a job."""
        found = job.succession = job.succession or Succession()
        for one in awaited:
            one.task.job, one.task.status, one.task.evicted = job, TaskStatus.RELEASING, True
            found.awaited.append(one)
        self._note(job)

    def restore_replaced(self, job: Job, task: str) -> None:
        """A task that terminates has a successor already."""
        found = job.succession = job.succession or Succession()
        found.replaced[task] = None
        self._note(job)

    def pass_time(self, now: int) -> list[Job]:
        """Date the waits that are new in this cycle, and end those whose time is up; the jobs of these."""
        ended = [job for job in self.jobs if _pass_time(job, now)]
        self.jobs = {job: None for job in self.jobs if job.succession is not None}
        return ended

    def next_end(self) -> int | None:
        """When the first successor is not expected any more."""
        ends = [one.until for job in self.jobs if job.succession for one in job.succession.awaited]
        return min((end for end in ends if end is not None), default=None)

    def _note(self, job: Job) -> None:
        if job.succession is not None:
            self.jobs[job] = None


def eviction_failed(job: Job, task: Task) -> None:
    """A task does not terminate after all."""
    _end(job, task, expected=False)


def _end(job: Job, task: Task, *, expected: bool) -> None:
    """An evicted task terminates no longer; ``expected``: a controller will create it again."""
    found = job.succession
    replaced = found is not None and task.key in found.replaced
    if found is not None:
        found.replaced.pop(task.key, None)
    if expected and not replaced and task.shape.ask and job.spec is not None:
        found = job.succession = found or Succession()
        found.awaited.append(Awaited(task))
    _tidy(job)


def _come(job: Job, task: Task) -> None:
    """Find the evicted task whose successor a new task is, if it is one."""
    found = job.succession
    if found is not None and found.awaited:
        alike = [n for n, one in enumerate(found.awaited) if one.task.shape.ask == task.shape.ask]
        named = [n for n, one in enumerate(found.awaited) if one.task.key == task.key]
        if chosen := named or alike:
            del found.awaited[chosen[0]]
            _tidy(job)
            return
    if job.evicted:
        leaving = (one for one in evicted_without_successor(job) if one.spec.returns)
        alike_ones = (one for one in leaving if one.shape.ask == task.shape.ask)
        first = min(alike_ones, key=lambda one: one.order, default=None)
        if first is not None:
            found = job.succession = found or Succession()
            found.replaced[first.key] = None


def evicted_without_successor(job: Job) -> list[Task]:
    """The evicted tasks that terminate and have no successor, whether or not they will have one."""
    return [task for task in job.each_task() if task.evicted and not was_replaced(job, task)]


def group_shrank(before: JobSpec, now: JobSpec) -> bool:
    """Whether a job needs fewer tasks than before: its owner may not want those back that were evicted."""
    return now.minimum < before.minimum


def expect_nobody(job: Job) -> None:
    """Expect no successors of tasks that are gone any more."""
    if job.succession is not None:
        job.succession.awaited.clear()
        _tidy(job)


def _pass_time(job: Job, now: int) -> bool:
    found = job.succession
    if found is None:
        return False
    before = len(found.awaited)
    for one in found.awaited:
        one.since = now if one.since is None else one.since
    found.awaited = [one for one in found.awaited if one.until is None or one.until > now]
    _tidy(job)
    return len(found.awaited) < before


def _tidy(job: Job) -> None:
    """Most jobs expect nobody: they keep nothing to say so."""
    if not job.succession:
        job.succession = None
