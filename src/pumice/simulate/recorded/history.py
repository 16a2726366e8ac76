"""The history in a decision log, taken apart: events from outside, and what followed each decision.

An event about a task belongs to the latest decision about it: that the task runs, how long, and that it ended follow
from its bind; that it terminates, is gone and is created again follow from its eviction. Events before any decision,
and all events about other objects, came from outside. Under the recorded configuration the simulation makes the same
decisions at the same times, so everything happens when it did; under another one the consequences move along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pumice.decision_log.recorded_cycles import RecordedCycle, Told
from pumice.engine.events import BindFailed, Changed, EvictFailed, Gone
from pumice.model.specs import JobSpec, TaskSpec, TaskStatus, Vector


@dataclass(frozen=True, slots=True, order=True)
class TimedEvent:
    """An event at a time; ``serial`` is its place in the log."""

    time: int
    serial: int
    event: Told = field(compare=False)


@dataclass(slots=True)
class Script:
    """What followed a decision. Times are relative to it."""

    anchor: int
    events: list[TimedEvent] = field(default_factory=list)
    length: int | None = None  # until the next decision about the task; None: there was none

    @property
    def has_end(self) -> bool:
        """Whether the task ended."""
        return any(_ends(one.event) for one in self.events)


@dataclass(slots=True)
class History:
    """Everything between the first and the last cycle of a log."""

    outside: list[TimedEvent] = field(default_factory=list)
    binds: dict[str, list[Script]] = field(default_factory=dict)
    evictions: dict[str, list[Script]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)  # jobs that were deleted before all their tasks had ended
    cycles: list[int] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)  # times of cycles with events or decisions
    follows_phases: bool = False  # whether the log has phases that follow from decisions
    decisions: int = 0
    jobs: int = 0

    def script_of_bind(self, task: str, number: int) -> list[TimedEvent] | None:
        """What follows the bind of a task, counted from 0; None: the log knows no run of it.

        A run that the log shows cut short by an eviction goes on as the last run of the task did.
        """
        runs = self.binds.get(task)
        if not runs:
            return None
        own, last = runs[min(number, len(runs) - 1)], runs[-1]
        if own is last or own.length is None:
            return own.events
        return own.events + [one for one in last.events if one.time > own.length]


def read_history(cycles: Iterable[RecordedCycle], tasks: Iterable[TaskSpec], jobs: Iterable[JobSpec]) -> History:
    """Take a log apart; ``tasks`` and ``jobs`` are there when it begins."""
    reader = _Reader(tasks, jobs)
    for cycle in cycles:
        reader.read(cycle)
    return reader.history


class _Reader:
    def __init__(self, tasks: Iterable[TaskSpec], jobs: Iterable[JobSpec]) -> None:
        self.history = History()
        self._serial = 0
        self._scripts: dict[str, Script] = {}  # the latest decision about each task
        self._tasks = {task.key: task for task in tasks}
        self._jobs = {job.key: job for job in jobs}
        self._unfinished: dict[str, set[str]] = {}  # tasks of each job
        self._to_replace: dict[tuple[str, Vector], list[Script]] = {}  # evicted tasks that have not come back
        self._evicted: dict[str, Script] = {}
        self.history.jobs = len(self._jobs)
        for task in self._tasks.values():
            self._count(task)

    def read(self, cycle: RecordedCycle) -> None:
        history = self.history
        for event in cycle.events:
            self._serial += 1
            self._event(TimedEvent(cycle.now, self._serial, event))
        for decision in cycle.decisions:
            task = str(decision.get("task"))
            if decision["does"] == "bind":
                self._decided(task, cycle.now, history.binds)
                self._evicted.pop(task, None)
            elif decision["does"] == "evict":
                self._evicted[task] = self._decided(task, cycle.now, history.evictions)
        history.cycles.append(cycle.now)
        history.decisions += len(cycle.decisions)
        if cycle.events or cycle.decisions:
            history.busy.add(cycle.now)

    def _decided(self, task: str, now: int, among: dict[str, list[Script]]) -> Script:
        before = self._scripts.get(task)
        if before is not None:
            before.length = now - before.anchor
        script = self._scripts[task] = Script(now)
        among.setdefault(task, []).append(script)
        return script

    def _event(self, one: TimedEvent) -> None:
        event = one.event
        if isinstance(event, BindFailed | EvictFailed):
            self._follow(event.task, one)
        elif isinstance(event, Gone) and event.kind is TaskSpec:
            self._task_gone(event.key, one)
        elif isinstance(event, Changed) and isinstance(event.object, TaskSpec):
            self._task_changed(event.object, one)
        elif isinstance(event, Changed) and isinstance(event.object, JobSpec):
            self._job_changed(event.object, one)
        elif isinstance(event, Gone) and event.kind is JobSpec:
            self._job_gone(event.key, one)
        else:
            self.history.outside.append(one)

    def _follow(self, task: str, one: TimedEvent) -> None:
        """Add an event to what followed the latest decision about a task, or to what came from outside."""
        script = self._scripts.get(task)
        if script is None:
            self.history.outside.append(one)
        else:
            script.events.append(replace(one, time=one.time - script.anchor))

    def _task_gone(self, key: str, one: TimedEvent) -> None:
        self._follow(key, one)
        task, script = self._tasks.pop(key, None), self._evicted.get(key)
        if task is None:
            return
        self._leave(task)
        if script is not None and task.job is not None:
            self._to_replace.setdefault((task.job, task.request), []).append(script)

    def _task_changed(self, task: TaskSpec, one: TimedEvent) -> None:
        new = task.key not in self._tasks
        self._tasks[task.key] = task
        self._count(task)
        if task.status >= TaskStatus.SUCCEEDED:
            self._leave(task)
        waiting = self._to_replace.get((task.job or "", task.request)) if new else None
        if task.key in self._scripts:
            if waiting and (own := self._evicted.get(task.key)) in waiting:
                waiting.remove(own)  # it comes back under its own name
            self._follow(task.key, one)
        elif waiting and task.status is TaskStatus.PENDING:
            script = waiting.pop(0)  # its controller created another one in its place
            script.events.append(replace(one, time=one.time - script.anchor))
        else:
            self.history.outside.append(one)

    def _job_changed(self, job: JobSpec, one: TimedEvent) -> None:
        known = self._jobs.get(job.key)
        self._jobs[job.key] = job
        if known is not None and known != job and replace(known, phase=job.phase) == job:
            self.history.follows_phases = True
        elif known != job:
            self.history.jobs += known is None
            self.history.outside.append(one)

    def _job_gone(self, key: str, one: TimedEvent) -> None:
        self._jobs.pop(key, None)
        if self._unfinished.get(key):
            self.history.cancelled.add(key)
        self.history.outside.append(one)

    def _count(self, task: TaskSpec) -> None:
        if task.job is not None and task.status < TaskStatus.SUCCEEDED:
            self._unfinished.setdefault(task.job, set()).add(task.key)

    def _leave(self, task: TaskSpec) -> None:
        if task.job is not None:
            self._unfinished.setdefault(task.job, set()).discard(task.key)


def _ends(event: Told) -> bool:
    """Whether a task ends by an event: it has succeeded or failed, or its pod is gone."""
    if isinstance(event, Changed):
        return isinstance(event.object, TaskSpec) and event.object.status >= TaskStatus.SUCCEEDED
    return isinstance(event, Gone)
