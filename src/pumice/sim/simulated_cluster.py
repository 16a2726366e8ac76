"""A simulated cluster with a virtual clock: it stores the objects, runs the engine and executes its decisions.

It replaces everything around a scheduler and makes no decisions of its own. A bound pod runs from the end of its cycle
until an event finishes it. Phases of jobs and states of closing queues follow from the tasks. The clock advances by the
length of a cycle, in microseconds. Objects are stored as in an API, so that a changed configuration can start a new
engine during a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from kubebase.resource_vector import Registry
from pumice.config.plugin_loader import plugin_factories
from pumice.engine.checkpoint.restore import reconfigured
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.cycle_status import phase_of
from pumice.engine.decisions import Bind, Decision, Enqueue, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.state.cluster_snapshot import snapshot_cluster
from pumice.model.queue_states import state_after_command, state_when_idle
from pumice.model.queue_tree import build_queue_tree
from pumice.model.specs import Described, JobPhase, JobSpec, Queue, QueueState, TaskSpec, TaskStatus
from pumice.sim.object_set import ObjectSet

NEVER = 1 << 62
"""A cycle that does not come."""


class SimulatedCluster:
    """Objects, an engine and a clock. ``cycles`` counts those that were run."""

    def __init__(
        self,
        objects: ObjectSet,
        registry: Registry,
        config: SchedulerConfig,
        *,
        cycle_length: int = 1_000_000,
        termination_cycles: int = 0,
        recreation_cycles: int = 0,
        controlled: Iterable[str] = (),
        tracing: bool = False,
    ) -> None:
        self.objects = ObjectSet()
        self.registry = registry
        self.cycle_length = cycle_length
        self.termination_cycles = termination_cycles
        self.recreation_cycles = recreation_cycles
        self.terminating: dict[str, int] = {}  # evicted pods, and the cycle at whose end each is deleted
        self.recreated_pods = set(controlled)  # pods that a controller creates again after deletion
        self._gone: list[TaskSpec] = []  # those of them whose controller has not noticed the deletion yet
        self._absent: list[tuple[TaskSpec, int]] = []  # and those that it creates at the end of a later cycle
        self.awaited_pods: dict[str, tuple[TaskSpec, ...]] = {}  # of jobs whose controller creates them when let in
        self.cycles = 0
        self.withdrawn_queues: dict[
            str, QueueState
        ] = {}  # queues that go when they are empty, and what they were before
        self.engine = Engine(config, plugin_factories(config), registry)
        self.engine.context.tracing = tracing
        self.now = 0
        for described in objects:
            self.put(described)
            # The clock starts after the creation of all initial objects.
            started = described.started if isinstance(described, TaskSpec) else 0
            self.now = max(self.now, getattr(described, "created", 0) + cycle_length, started)
        self.refresh_phases(self.objects.jobs)

    @classmethod
    def around(cls, engine: Engine, controlled: Iterable[str]) -> SimulatedCluster:
        """The cluster that an engine knows already, at the engine's time. Cycles take no time.

        Tasks with a node run, also those whose start the engine has not been told yet. Tasks that are leaving, now or
        later, are there until ``remove_terminating``. Evicted tasks whose successors the engine awaits are those whose
        controllers have still to notice.
        """
        config = engine.policy.config
        cluster = cls(ObjectSet(), engine.state.registry, config, cycle_length=0, controlled=controlled)
        cluster.termination_cycles = NEVER
        cluster.engine, cluster.now = engine, engine.now
        was = snapshot_cluster(engine.state)
        for described in (*was.objects, *(job.spec for job in was.jobs if job.spec is not None)):
            cluster.objects.put(described)
        for task in was.tasks:
            placed = replace(task.spec, node=task.node, started=task.started)
            if task.status is TaskStatus.RELEASING:
                cluster.objects.put(replace(placed, status=TaskStatus.RELEASING))
                cluster.terminating[task.spec.key] = NEVER
            elif task.status in (TaskStatus.BINDING, TaskStatus.BOUND):
                cluster.put(replace(placed, status=TaskStatus.RUNNING))
            else:
                cluster.objects.put(replace(placed, status=task.status) if task.status.on_node else task.spec)
        cluster._gone = [one.spec for job in was.jobs for one in job.awaited]
        return cluster

    # --- objects ------------------------------------------------------------------------------------------------

    def put(self, described: Described) -> None:
        """An object is as described: new, or in the place of the one before."""
        self.objects.put(described)
        self.engine.apply(Changed(described))

    def drop(self, kind: type[Described], key: str) -> None:
        """Delete an object."""
        self.objects.drop(kind, key)
        self.engine.apply(Gone(kind, key))
        if kind is Queue:
            self.withdrawn_queues.pop(key, None)

    def drop_queue(self, name: str) -> None:
        """Delete a queue with the queues below it, their jobs and their pods."""
        queues = self.subtree(name)
        jobs = {job.key for job in self.objects.jobs.values() if job.queue in queues}
        for key in [task.key for task in self.objects.tasks.values() if task.job in jobs]:
            self.drop(TaskSpec, key)
        for key in sorted(jobs):
            self.drop(JobSpec, key)
        for queue in reversed(queues):
            self.drop(Queue, queue)

    def finish_task(self, task: TaskSpec) -> None:
        """A running task ends well."""
        self.put(replace(task, status=TaskStatus.SUCCEEDED))
        if task.job is not None:
            self.refresh_phases([task.job])

    def running_tasks(self) -> list[TaskSpec]:
        """The running tasks of Pumice, by name."""
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
            elif isinstance(decision, Evict):
                self.put(replace(self.objects.tasks[decision.task], status=TaskStatus.RELEASING))
                self.terminating[decision.task] = self.cycles + self.termination_cycles
            elif isinstance(decision, Enqueue):
                self._create_awaited_pods(decision.job)
        self._remove_terminated()
        self._recreate_absent()
        self._refresh_queue_states()
        self.now += self.cycle_length
        return decisions

    @property
    def is_changing(self) -> bool:
        """Whether the state will change without an event: pods terminate or are awaited, tasks wait for victims, a
        cooldown ends.
        """
        engine = self.engine
        return (
            bool(self.terminating or self._absent or engine.context.pipelined.tasks or engine.state.successions.jobs)
            or engine.context.reclaimers.waits_for_cooldown(self.now)
            or engine.context.unstartable.has_unreported
        )

    def _create_awaited_pods(self, job: str) -> None:
        for task in self.awaited_pods.pop(job, ()):
            self.put(replace(task, created=self.now))

    def remove_terminating(self, due: int) -> bool:
        """Delete the evicted pods that would be deleted at the end of a later cycle; returns whether there are any.

        ``recreate_pods`` creates them again.
        """
        ending = [key for key, cycle in self.terminating.items() if cycle == due]
        self.terminating.update(dict.fromkeys(ending, self.cycles))
        self._remove_terminated(noticed=False)
        return bool(ending)

    def recreate_pods(self) -> bool:
        """Let controllers notice which pods are gone, and create them again; returns whether there are any."""
        gone, self._gone = self._gone, []
        for task in gone:
            self._recreate(task)
        return bool(gone)

    def _recreate(self, task: TaskSpec) -> None:
        self.put(replace(task, status=TaskStatus.PENDING, node=None, started=0, created=self.now))
        if task.job is not None:
            self.refresh_phases([task.job])

    def _recreate_absent(self) -> None:
        """Create pods again whose controllers have taken their time; not those of jobs that were deleted meanwhile."""
        due = [task for task, cycle in self._absent if cycle <= self.cycles]
        self._absent = [(task, cycle) for task, cycle in self._absent if cycle > self.cycles]
        for task in due:
            if task.job in self.objects.jobs and task.key not in self.objects.tasks:
                self._recreate(task)

    def _remove_terminated(self, *, noticed: bool = True) -> None:
        """Delete evicted pods whose termination time has passed; a controller creates those of its job again."""
        for key in [key for key, cycle in self.terminating.items() if cycle <= self.cycles]:
            del self.terminating[key]
            task = self.objects.tasks.get(key)
            if task is None or task.status is not TaskStatus.RELEASING:
                continue
            self.drop(TaskSpec, key)
            if key in self.recreated_pods and noticed and not self.recreation_cycles:
                self._recreate(task)
                continue
            if key in self.recreated_pods and noticed:
                self._absent.append((task, self.cycles + self.recreation_cycles))
            elif key in self.recreated_pods:
                self._gone.append(task)
            if task.job is not None:
                self.refresh_phases([task.job])

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Use another configuration from the next cycle on."""
        self.engine = reconfigured(self.engine, config, plugin_factories(config))

    # --- what controllers do --------------------------------------------------------------------------------------

    def refresh_phases(self, jobs: Iterable[str]) -> None:
        """Update the phases of jobs whose tasks were created, started or ended by other means than a decision."""
        waiting = Counter(task.job for task in self.engine.context.pipelined.tasks)
        for key in jobs:
            job = self.engine.state.jobs.get(key)
            if job is None or job.spec is None:
                continue
            phase = phase_of(job, waiting[job])
            if phase is not job.phase:
                self.put(replace(self.objects.jobs[key], phase=phase))

    def command_queue(self, queue: str, action: str) -> None:
        """Open, close, pause or resume a queue. The queues below it keep their own states."""
        self._set_state(
            queue, state_after_command(self.objects.queues[queue].state, action, busy=queue in self._busy_queues())
        )

    def withdraw_queue(self, queue: str) -> None:
        """A hierarchy no longer contains a queue that it created: close the queue, and delete it when it is empty."""
        self.withdrawn_queues.setdefault(queue, self.objects.queues[queue].state)
        self.command_queue(queue, "CloseQueue")
        self._refresh_queue_states()

    def restore_queue(self, queue: str) -> None:
        """A queue that was withdrawn is named again before it was empty: it is what it was."""
        self._set_state(queue, self.withdrawn_queues.pop(queue))

    def _set_state(self, name: str, state: QueueState) -> None:
        queue = self.objects.queues[name]
        if state is not queue.state:
            self.put(replace(queue, state=state))

    def subtree(self, queue: str) -> list[str]:
        """A queue and the queues below it, by name, those above first."""
        path_of = build_queue_tree(self.objects.queues).path_of
        top = path_of[queue]
        inside = [name for name, path in path_of.items() if path[: len(top)] == top]
        return sorted((name for name in inside if name in self.objects.queues), key=lambda name: path_of[name])

    def _busy_queues(self) -> set[str]:
        """The queues with unfinished jobs in them or below."""
        path_of, known = build_queue_tree(self.objects.queues).path_of, self.engine.state.jobs
        jobs = (job for job in self.objects.jobs.values() if known[job.key].phase is not JobPhase.COMPLETED)
        paths = {path_of[queue] for queue in {job.queue for job in jobs} if queue in path_of}
        lines = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
        return {name for name, path in path_of.items() if path in lines}

    def _refresh_queue_states(self) -> None:
        """Queues are Closing as long as there is work in them, then Closed; those that were withdrawn go then."""
        closed = (QueueState.CLOSING, QueueState.CLOSED)
        moving = [queue for queue in self.objects.queues.values() if queue.state in closed]
        if not moving and not self.withdrawn_queues:
            return
        busy = self._busy_queues()
        for queue in moving:
            self._set_state(queue.name, state_when_idle(queue.state, busy=queue.name in busy))
        for name in sorted(self.withdrawn_queues):
            if name in self.withdrawn_queues and name not in busy:  # it may have been deleted with a queue above it
                self.drop_queue(name)
