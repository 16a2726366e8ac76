"""The engine on simulated nodes, from event to event in virtual time.

Events are: a job arrives, tasks end, evicted tasks are gone, and the engine's own times (patience, cooldown, the end of
a reservation). All events of one moment are applied before the cycle of that moment. A task runs for the job's run time
from its bind on; an evicted task terminates for the grace period, loses its work and waits again. A job is removed when
all its tasks have ended. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from pumice.engine.cycle_status import phase_of
from pumice.engine.decisions import Bind, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.recovery.partial_gangs import REPAIR_LIMIT
from pumice.model.specs import JobPhase, JobSpec, TaskSpec
from pumice.simulate.cluster_spec import ClusterSpec
from pumice.simulate.live_job import NAMESPACE, LiveJob
from pumice.simulate.recorder import Recorder
from pumice.simulate.workload import WorkloadJob

MAX_IDLE_CYCLES = 100
"""So many cycles in a row may pass in which only the engine's own times come and nothing starts, ends or arrives."""


class VirtualCluster:
    """The cluster of one run. ``now`` is the virtual time, ``jobs`` are those that are live."""

    def __init__(
        self, engine: Engine, spec: ClusterSpec, jobs: Iterator[WorkloadJob], recorder: Recorder, grace: int = 0
    ) -> None:
        self.engine = engine
        self.recorder = recorder
        self.grace = grace
        self.now = 0
        self.cycles = 0
        self.jobs: dict[str, LiveJob] = {}
        self._arrivals = jobs
        self._next_arrival = next(jobs, None)
        self._leaf_of = spec.leaf_of
        self._vectors = spec.vectors
        self._ends: list[tuple[int, int, LiveJob, tuple[str, ...]]] = []  # time, serial, job, tasks
        self._terminating: list[tuple[int, int, LiveJob, str]] = []
        self._serial = 0
        self._engine_time: int | None = None
        for described in spec.objects:
            engine.apply(Changed(described))
        recorder.begin(engine, spec.vectors.values())

    def run(self, until: int | None = None, watch: Callable[[VirtualCluster], None] | None = None) -> None:
        """Run to the end: until that time, or until nothing more can happen. ``watch`` is called after each cycle."""
        idle = 0
        while idle < MAX_IDLE_CYCLES:
            moment = self._next_moment()
            if moment is None or (until is not None and moment > until):
                break
            self.recorder.advance(moment)
            self.now = moment
            changed = self._apply_events()
            changed |= self._cycle()
            idle = 0 if changed or self._has_events else idle + 1
            if watch is not None:
                watch(self)
        if until is not None:
            self.recorder.advance(until)
            self.now = max(self.now, until)
        for job in self.jobs.values():
            self.recorder.job_left(job)
        self.recorder.finish(self.now)

    @property
    def _has_events(self) -> bool:
        return self._next_arrival is not None or bool(self._ends) or bool(self._terminating)

    def _next_moment(self) -> int | None:
        first = self._engine_time
        arrival, ends, terminating = self._next_arrival, self._ends, self._terminating
        if arrival is not None and (first is None or arrival.submit < first):
            first = arrival.submit
        if ends and (first is None or ends[0][0] < first):
            first = ends[0][0]
        if terminating and (first is None or terminating[0][0] < first):
            first = terminating[0][0]
        return None if first is None else max(first, self.now)

    # --- events ---------------------------------------------------------------------------------------------------

    def _apply_events(self) -> bool:
        """Apply everything that happens now; returns whether anything does."""
        now, any_event = self.now, False
        while self._ends and self._ends[0][0] <= now:
            _, _, job, tasks = heappop(self._ends)
            any_event |= self._end_tasks(job, tasks)
        while self._terminating and self._terminating[0][0] <= now:
            _, _, job, task = heappop(self._terminating)
            self._return_task(job, task)
            any_event = True
        while self._next_arrival is not None and self._next_arrival.submit <= now:
            self._arrive(self._next_arrival)
            self._next_arrival = next(self._arrivals, None)
            any_event = True
        return any_event

    def _arrive(self, arrived: WorkloadJob) -> None:
        job = LiveJob(arrived, self._leaf_of[arrived.queue], self._vectors[arrived.request])
        self.jobs[job.key] = job
        self.engine.apply(Changed(job.spec(JobPhase.PENDING)))
        for task in job.tasks:
            self.engine.apply(Changed(job.pending_task(task, arrived.submit)))
        self.recorder.job_arrived(job)

    def _end_tasks(self, job: LiveJob, tasks: tuple[str, ...]) -> bool:
        """The tasks that began together end together, except those that were evicted meanwhile."""
        begun = self.now - job.job.run_time
        ended = [task for task in tasks if job.started.get(task) == begun and task not in job.terminating]
        if not ended:
            return False
        for task in ended:
            del job.started[task]
        job.ended += len(ended)
        self.recorder.tasks_ended(job, len(ended))
        if job.ended == job.job.tasks:
            self._remove(job)
        else:
            for task in ended:
                self.engine.apply(Changed(job.ended_task(task, begun)))
            self._refresh_phase(job)
        return True

    def _remove(self, job: LiveJob) -> None:
        for task in job.tasks:
            self.engine.apply(Gone(TaskSpec, f"{NAMESPACE}/{task}"))
        self.engine.apply(Gone(JobSpec, job.key))
        del self.jobs[job.key]
        job.end = self.now
        self.recorder.job_left(job)

    def _return_task(self, job: LiveJob, task: str) -> None:
        """An evicted task is gone, and its controller creates it again."""
        begun = job.started.pop(task)
        job.terminating.remove(task)
        self.recorder.task_lost(job, self.now - begun)
        self.engine.apply(Gone(TaskSpec, f"{NAMESPACE}/{task}"))
        self.engine.apply(Changed(job.pending_task(task, self.now)))
        self._refresh_phase(job)

    def _refresh_phase(self, job: LiveJob) -> None:
        """Report the phase of a job whose tasks changed by other means than a decision, as its controller would."""
        known = self.engine.state.jobs[job.key]
        waiting = sum(task.job is known for task in self.engine.context.pipelined.tasks)
        phase = phase_of(known, waiting)
        if phase is not known.phase:
            self.engine.apply(Changed(job.spec(phase)))

    # --- decisions ------------------------------------------------------------------------------------------------

    def _cycle(self) -> bool:
        """Run a cycle and execute its decisions; returns whether any task was bound or evicted."""
        now, engine = self.now, self.engine
        self.cycles += 1
        bound: dict[str, list[str]] = {}
        evicted = False
        for decision in engine.cycle(now):
            if isinstance(decision, Bind):
                job = self.jobs[decision.job]
                task = decision.task.partition("/")[2]
                job.started[task] = now
                job.nodes[task] = decision.node
                engine.apply(Changed(job.running_task(task, now)))
                bound.setdefault(decision.job, []).append(task)
            elif isinstance(decision, Evict):
                self._evict(self.jobs[decision.job], decision.task.partition("/")[2])
                evicted = True
        for key, tasks in bound.items():
            job = self.jobs[key]
            self._serial += 1
            heappush(self._ends, (now + job.job.run_time, self._serial, job, tuple(tasks)))
            self.recorder.tasks_started(job, len(tasks), now)
        self._engine_time = next_engine_time(engine, now)
        self.recorder.observe(now)
        return bool(bound) or evicted

    def _evict(self, job: LiveJob, task: str) -> None:
        begun = job.started[task]
        job.terminating.add(task)
        job.evictions += 1
        self.engine.apply(Changed(job.terminating_task(task, begun)))
        self._serial += 1
        heappush(self._terminating, (self.now + self.grace, self._serial, job, task))
        self.recorder.task_evicted(job)


def next_engine_time(engine: Engine, now: int) -> int | None:
    """The first time after now at which a cycle may decide differently although nothing happens until then."""
    context = engine.context
    times = [context.reclaimers.next_change_at(now), context.preemptors.next_change_at(now)]
    if context.partial_gangs:
        times += [since + REPAIR_LIMIT for since in context.partial_gangs.values()]
    times.append(context.state.successions.next_end())
    reservations = context.reservations
    if reservations is not None:
        times.append(reservations.next_change_at(now))
        if reservations.limit >= 0 and reservations.active:
            times += [hold.progress + reservations.limit for hold in reservations.active.values()]
    found = None
    for time in times:
        if time is not None and time > now and (found is None or time < found):
            found = time
    return found
