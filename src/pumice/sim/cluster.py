"""A simulated cluster under a virtual clock: it keeps the objects, runs the engine and does what it decides.

It stands in for everything around a scheduler and decides nothing itself. A bound pod runs from the end of its
cycle; a pod runs until something finishes it; phases of jobs and states of closing queues follow from their
tasks. The clock moves by the length of a cycle, in microseconds. Objects are kept here as an API would keep
them, so that a new engine can take over in the middle (a changed configuration).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pumice.model.events import Changed, Described, Gone
from pumice.model.hierarchy import lay_out
from pumice.model.objects import JobPhase, JobSpec, Queue, QueueState, TaskSpec, TaskStatus
from pumice.model.resources import Registry
from pumice.model.state import ClusterState
from pumice.scheduling.conclude import phase_of
from pumice.scheduling.config import SchedulerConfig
from pumice.scheduling.decisions import Bind, Decision
from pumice.scheduling.engine import Engine
from pumice.scheduling.plugins import BUILT_IN
from pumice.sim.objects import Objects


class Cluster:
    """Objects, an engine and a clock. ``cycles`` counts those that were run."""

    def __init__(
        self,
        objects: Objects,
        registry: Registry,
        config: SchedulerConfig,
        *,
        cycle_length: int = 1_000_000,
        tracing: bool = False,
    ) -> None:
        self.objects = Objects()
        self.registry = registry
        self.cycle_length = cycle_length
        self.cycles = 0
        self.leaving: set[str] = set()  # queues that go when they are empty
        self.engine = self._engine(config, tracing)
        self.now = 0
        for described in objects:
            self.put(described)
            # The clock starts when everything that is there is there.
            started = described.started if isinstance(described, TaskSpec) else 0
            self.now = max(self.now, getattr(described, "created", 0) + cycle_length, started)
        self.refresh_phases(self.objects.jobs)

    # --- objects ------------------------------------------------------------------------------------------------

    def put(self, described: Described) -> None:
        """An object is as described: new, or in the place of the one before."""
        self.objects.put(described)
        self.engine.apply(Changed(described))

    def drop(self, kind: type[Described], key: str) -> None:
        """An object is gone."""
        self.objects.drop(kind, key)
        self.engine.apply(Gone(kind, key))

    def drop_queue(self, name: str) -> None:
        """A queue is gone, and with it the queues below it, their jobs and the pods of these."""
        queues = self.subtree(name)
        jobs = {job.key for job in self.objects.jobs.values() if job.queue in queues}
        for key in [task.key for task in self.objects.tasks.values() if task.job in jobs]:
            self.drop(TaskSpec, key)
        for key in sorted(jobs):
            self.drop(JobSpec, key)
        for queue in reversed(queues):
            self.drop(Queue, queue)
        self.leaving.difference_update(queues)

    def finish(self, task: TaskSpec) -> None:
        """A running task ends well."""
        self.put(replace(task, status=TaskStatus.SUCCEEDED))
        if task.job is not None:
            self.refresh_phases([task.job])

    def running(self) -> list[TaskSpec]:
        """The tasks of ours that run, by name."""
        ours = (task for task in self.objects.tasks.values() if task.managed and task.job is not None)
        return sorted((task for task in ours if task.status is TaskStatus.RUNNING), key=lambda task: task.key)

    # --- time -----------------------------------------------------------------------------------------------------

    def cycle(self) -> list[Decision]:
        """One scheduling cycle: decide, do what was decided, and let its time pass."""
        self.cycles += 1
        decisions = self.engine.cycle(self.now)
        for decision in decisions:
            if isinstance(decision, Bind):
                task = self.objects.tasks[decision.task]
                self.put(replace(task, node=decision.node, status=TaskStatus.RUNNING, started=self.now))
        self._clear_queues()
        self.now += self.cycle_length
        return decisions

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Another engine takes over, knowing what the old one did."""
        before = self.engine.state
        self.engine = self._engine(config, self.engine.tracing)
        for described in self.objects:
            self.engine.apply(Changed(_as_known(described, before)))

    def _engine(self, config: SchedulerConfig, tracing: bool) -> Engine:
        engine = Engine(config, BUILT_IN, self.registry)
        engine.tracing = tracing
        return engine

    # --- what controllers do --------------------------------------------------------------------------------------

    def refresh_phases(self, jobs: Iterable[str]) -> None:
        """Phases of jobs whose tasks came, started or ended other than by a decision."""
        for key in jobs:
            job = self.engine.state.jobs.get(key)
            if job is None or job.spec is None:
                continue
            phase = phase_of(job)
            if phase is not job.phase:
                self.put(replace(self.objects.jobs[key], phase=phase))

    def close(self, queue: str) -> None:
        """A queue and those below it take no more work: Closing until their jobs are done, then Closed."""
        for name in self.subtree(queue):
            self.put(replace(self.objects.queues[name], state=QueueState.CLOSING))
        self._clear_queues()

    def subtree(self, queue: str) -> list[str]:
        """A queue and the queues below it, by name, those above first."""
        path_of = lay_out(self.objects.queues).path_of
        top = path_of[queue]
        inside = [name for name, path in path_of.items() if path[: len(top)] == top]
        return sorted((name for name in inside if name in self.objects.queues), key=lambda name: path_of[name])

    def _clear_queues(self) -> None:
        """Closing queues without work are Closed; of these, those that were withdrawn go."""
        closing = [queue for queue in self.objects.queues.values() if queue.state is QueueState.CLOSING]
        if not closing and not self.leaving:
            return
        jobs = self.engine.state.jobs
        busy = {job.queue for job in self.objects.jobs.values() if jobs[job.key].phase is not JobPhase.COMPLETED}
        for queue in closing:
            if busy.isdisjoint(self.subtree(queue.name)):
                self.put(replace(queue, state=QueueState.CLOSED))
        for name in sorted(self.leaving):
            if name in self.leaving and busy.isdisjoint(self.subtree(name)):  # it may have gone with one above it
                self.drop_queue(name)


def _as_known(described: Described, state: ClusterState) -> Described:
    """An object with what an engine has found out or decided about it."""
    if isinstance(described, JobSpec):
        return replace(described, phase=state.jobs[described.key].phase)
    if isinstance(described, TaskSpec):
        return replace(described, started=state.tasks[described.key].started)
    return described
