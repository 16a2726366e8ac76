"""One run over a decision log: its engine, its history, and the figures of what happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kubebase.resource_vector import Registry
from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.recorded_cycles import RecordedCycles, RecordedStart
from pumice.engine.checkpoint.restore import restore_engine
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Event, Gone
from pumice.model.specs import JobSpec, Queue, TaskSpec, TaskStatus
from pumice.simulate.figures import RunFigures
from pumice.simulate.live_job import LiveJob
from pumice.simulate.recorded.history import History, read_history
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from pumice.simulate.recorder import Recorder
from pumice.simulate.workload import WorkloadJob


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A decision log that was read, with the engine that it begins with."""

    start: RecordedStart
    registry: Registry
    history: History

    @property
    def config(self) -> SchedulerConfig:
        """The configuration that the log begins with; raises ConfigError."""
        return read_config(self.start.heading.config, self.start.heading.source)

    def engine(self, config: SchedulerConfig | None = None) -> Engine:
        """An engine of its own at the beginning of the log."""
        used = config or self.config
        cooldown = self.start.heading.cooldown
        return restore_engine(self.start.snapshot, used, plugin_factories(used), self.registry, cooldown)


def read_log(log: Path, since: int | None = None) -> RecordedLog:
    """Read a log, from the file on that contains a time; raises LogError."""
    recorded = RecordedCycles(log, since)
    was = recorded.start.snapshot.cluster
    tasks = [task.spec for task in was.tasks]
    history = read_history(recorded, tasks, [job.spec for job in was.jobs if job.spec is not None])
    return RecordedLog(recorded.start, recorded.registry, history)


@dataclass(slots=True)
class _RecordedJob:
    """A job of the log between its arrival and its end."""

    live: LiveJob
    waiting: set[str] = field(default_factory=set)
    running: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    last_end: int | None = None
    longest: int = 0  # run time of a task


OnJob = Callable[[LiveJob], None]


class RecordedRun:
    """Measures a run. Times of the recorder begin at 0 with the first measured moment.

    A scheduler that has just started learns the cluster before its first cycle, so the first cycle is not measured.
    """

    def __init__(self, cluster: RecordedCluster, on_job: OnJob | None = None) -> None:
        history = cluster.history
        if not cluster.cycles and history.cycles:
            cluster.run(lambda now, events, decisions: None, history.cycles[0])
        self._cluster = cluster
        self._origin = cluster.now
        last = history.cycles[-1] if history.cycles else cluster.now
        self._recorder = Recorder(last - self._origin, on_job)
        self._engine = cluster.engine
        self._jobs: dict[str, _RecordedJob] = {}
        self._tasks: dict[str, TaskSpec] = {}
        self._early: dict[
            str, dict[str, TaskSpec]
        ] = {}  # tasks of jobs that are not known yet: pods come by themselves
        self._awaiting: dict[str, str] = {}  # the job of each of them
        self._line = 0
        requests = [task.spec.request for task in cluster.engine.state.tasks.values()]
        requests += [
            one.event.object.request
            for one in history.outside
            if isinstance(one.event, Changed) and isinstance(one.event.object, TaskSpec)
        ]
        self._recorder.begin(cluster.engine, requests)
        for job in cluster.engine.state.jobs.values():
            if job.spec is not None:
                self._job_arrived(job.spec, 0)
        for task in cluster.engine.state.tasks.values():
            started = max(0, task.started - self._origin)
            self._there_already(task.spec, task.status, started)

    def run(self, until: int | None = None) -> None:
        """Run to the end."""
        self._cluster.run(self._watch, until)
        now = self._cluster.now - self._origin
        self._recorder.advance(now)
        for key in list(self._jobs):
            self._job_left(key)
        self._recorder.finish(now)

    def figures(self, policy: str, repeat: int = 0) -> RunFigures:
        """Everything that was measured."""
        return self._recorder.figures(policy, repeat, self._cluster.cycles)

    # --- what happens -----------------------------------------------------------------------------------------------

    def _watch(self, moment: int, events: list[Event], decisions: list[Decision]) -> None:
        now, recorder = moment - self._origin, self._recorder
        recorder.advance(now)
        if self._cluster.engine is not self._engine or any(_is_queue_event(event) for event in events):
            self._engine = self._cluster.engine
            recorder.use_engine(self._engine)
        for event in events:
            self._event(event, now)
        for decision in decisions:
            if isinstance(decision, Bind):
                self._bound(decision, now)
            elif isinstance(decision, Evict):
                self._evicted(decision)
        recorder.observe(now)

    def _event(self, event: Event, now: int) -> None:
        if isinstance(event, Changed):
            if isinstance(event.object, JobSpec):
                self._job_arrived(event.object, now)
            elif isinstance(event.object, TaskSpec):
                self._task_changed(event.object, now)
        elif isinstance(event, Gone):
            if event.kind is TaskSpec:
                self._task_gone(event.key, now)
            elif event.kind is JobSpec:
                self._job_left(event.key)
        elif isinstance(event, BindFailed):
            job = self._job_of(event.task)
            if job is not None and job.running.pop(event.task, None) is not None:
                job.waiting.add(event.task)
                self._recorder.tasks_arrived(1)

    def _job_arrived(self, spec: JobSpec, now: int) -> None:
        if spec.key in self._jobs or not self._recorder.knows(spec.queue):
            return
        self._line += 1
        submit = min(now, max(0, spec.created - self._origin)) if spec.created else now
        job = WorkloadJob(spec.key, submit, spec.queue, spec.user or "", 0, (), spec.minimum, 0, 0, self._line)
        live = LiveJob(job, spec.queue, ())
        self._jobs[spec.key] = _RecordedJob(live)
        self._recorder.job_arrived(live)
        for task in self._early.pop(spec.key, {}).values():
            del self._awaiting[task.key]
            self._task_changed(task, now)

    def _there_already(self, task: TaskSpec, status: TaskStatus, started: int) -> None:
        job = self._jobs.get(task.job or "")
        if job is None or status >= TaskStatus.SUCCEEDED:
            return
        self._tasks[task.key] = task
        self._count_task(job)
        if status.on_node:
            job.running[task.key] = started
            job.live.first_start = started
        else:
            job.waiting.add(task.key)
            self._recorder.tasks_arrived(1)

    def _count_task(self, job: _RecordedJob) -> None:
        job.live.job = replace(job.live.job, tasks=job.live.job.tasks + 1)

    def _task_changed(self, task: TaskSpec, now: int) -> None:
        job = self._jobs.get(task.job or "")
        if job is None:
            if task.job is not None:
                self._early.setdefault(task.job, {})[task.key] = task
                self._awaiting[task.key] = task.job
            return
        new = task.key not in self._tasks
        self._tasks[task.key] = task
        if new:
            self._count_task(job)
            if task.status < TaskStatus.SUCCEEDED:
                job.waiting.add(task.key)
                self._recorder.tasks_arrived(1)
        elif task.status >= TaskStatus.SUCCEEDED:
            self._ended(job, task.key, now)
        elif task.status is TaskStatus.PENDING and task.key not in job.waiting and task.key not in job.running:
            job.waiting.add(task.key)

    def _task_gone(self, key: str, now: int) -> None:
        if (awaited := self._awaiting.pop(key, None)) is not None:
            self._early[awaited].pop(key)
        job = self._job_of(key)
        if job is None:
            return
        if key in job.leaving:
            begun = job.leaving.pop(key)
            self._recorder.task_lost(job.live, now - begun, self._tasks[key].request)
            job.waiting.add(key)  # until it comes back, or for ever
        elif key in job.waiting:
            job.waiting.discard(key)
            self._recorder.tasks_arrived(-1)
        else:
            self._ended(job, key, now)

    def _ended(self, job: _RecordedJob, key: str, now: int) -> None:
        begun = job.running.pop(key, None)
        if begun is not None:
            job.longest = max(job.longest, now - begun)
            job.last_end = now
            self._recorder.tasks_ended(job.live, 1)

    def _bound(self, decision: Bind, now: int) -> None:
        job = self._jobs.get(decision.job)
        if job is None or decision.task not in job.waiting:
            return
        job.waiting.remove(decision.task)
        job.running[decision.task] = now
        self._recorder.tasks_started(job.live, 1, now)

    def _evicted(self, decision: Evict) -> None:
        job = self._jobs.get(decision.job)
        if job is None or decision.task not in job.running:
            return
        job.leaving[decision.task] = job.running.pop(decision.task)
        job.live.evictions += 1
        self._recorder.task_evicted(job.live)

    def _job_of(self, task: str) -> _RecordedJob | None:
        known = self._tasks.get(task)
        return self._jobs.get(known.job or "") if known is not None else None

    def _job_left(self, key: str) -> None:
        job = self._jobs.pop(key, None)
        if job is None:
            return
        live, known = job.live, job.live.job
        if not job.waiting and not job.running and not job.leaving:
            live.end = job.last_end
        self._recorder.tasks_arrived(-len(job.waiting))
        live.job = known.at(known.submit, job.longest)
        self._recorder.job_left(live)


def _is_queue_event(event: Event) -> bool:
    if isinstance(event, Changed):
        return isinstance(event.object, Queue)
    return isinstance(event, Gone) and event.kind is Queue
