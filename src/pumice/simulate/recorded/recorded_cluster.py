"""The engine on the history of a decision log, from event to event in virtual time.

Cycles run at times at which the recorded scheduler ran one, or when something happens that did not happen then. A task
that the log never saw running runs to the end of the log; a task that is evicted more often than in the log terminates
for the grace period and is created again. Nothing here decides anything.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from heapq import heapify, heappop, heappush

from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.recorded_cycles import EngineReplaced, EngineRestarted, Told
from pumice.engine.checkpoint.restore import reconfigured, restore_engine
from pumice.engine.cycle_status import phase_of
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.model.specs import JobSpec, Queue, TaskSpec, TaskStatus
from pumice.simulate.recorded.history import History, TimedEvent
from pumice.simulate.virtual_cluster import next_engine_time

Watch = Callable[[int, list[Event], list[Decision]], None]
"""Gets the time of a cycle, the events before it and its decisions."""


class RecordedCluster:
    """A run over a history.

    ``kept_queues`` are not changed by what the log says about them. ``replaces_engine``: follow the configurations of
    the log; otherwise that of the engine stays in force. ``restarts_engine``: where the log has a scheduler that was
    started anew, one that knows what that one knew goes on, which is right as long as all has happened as in the log;
    otherwise the present one goes on.
    """

    def __init__(
        self,
        engine: Engine,
        history: History,
        *,
        grace: int = 0,
        kept_queues: frozenset[str] = frozenset(),
        replaces_engine: bool = True,
        restarts_engine: bool = True,
    ) -> None:
        self.engine = engine
        self.history = history
        self.grace = grace
        self.now = engine.now
        self.cycles = 0
        self.kept_queues = kept_queues
        self.replaces_engine = replaces_engine
        self.restarts_engine = restarts_engine
        self._queue: list[tuple[int, int, str, int, Told]] = [
            (one.time, one.serial, "", 0, one.event) for one in history.outside
        ]
        heapify(self._queue)
        self._generation: Counter[str] = Counter()  # decisions about each task
        self._binds: Counter[str] = Counter()
        self._evictions: Counter[str] = Counter()
        self._to_delete: set[str] = set()  # jobs that were deleted in the log after their end, which is yet to come
        self._left: list[str] = []  # jobs whose tasks are gone since the last cycle
        self._nodes: dict[str, str] = {}  # of tasks that were bound here
        self._serial = len(history.outside) + 10**12  # after everything recorded at the same time
        self._busy = sorted(history.busy)
        self._engine_time: int | None = None
        self._decided = False

    def run(self, watch: Watch, until: int | None = None) -> None:
        """Run to the last cycle of the log, or until a time."""
        last = self.history.cycles[-1] if self.history.cycles else self.now
        end = last if until is None else min(last, until)
        while (moment := self._next_moment()) is not None and moment <= end:
            self.now = moment
            events = self._apply_events()
            decisions = self.engine.cycle(moment)
            self.cycles += 1
            self._decided = bool(decisions) or self.engine.context.unstartable.has_unreported
            for decision in decisions:
                if isinstance(decision, Bind):
                    self._bound(decision)
                elif isinstance(decision, Evict):
                    self._evicted(decision)
            if self.history.follows_phases:  # before other events: the scheduler reports them at the end of a cycle
                self._refresh_phases(events, decisions)
            self._engine_time = next_engine_time(self.engine, moment)
            watch(moment, events, decisions)
        self.now = end

    # --- time -----------------------------------------------------------------------------------------------------

    def _next_moment(self) -> int | None:
        """The next time at which something happens, or at which a cycle of the log may decide something."""
        times = [max(self._queue[0][0], self.now)] if self._queue else []
        cycles = self.history.cycles
        following = bisect_right(cycles, self.now) if self.cycles else bisect_left(cycles, self.now)
        if self._decided or not self.cycles:
            times += cycles[following : following + 1]
        if self._engine_time is not None:
            ripe = bisect_left(cycles, self._engine_time, following)
            times += cycles[ripe : ripe + 1]
        busy = bisect_right(self._busy, self.now)
        times += self._busy[busy : busy + 1]
        return min(times) if times else None

    def _apply_events(self) -> list[Event]:
        found: list[Event] = []
        while self._queue and self._queue[0][0] <= self.now:
            _, _, task, generation, event = heappop(self._queue)
            if task and generation != self._generation[task]:
                continue  # another decision about the task has come in between
            if isinstance(event, EngineReplaced):
                self._replace_engine(event)
                continue
            if isinstance(event, EngineRestarted):
                self._restart_engine(event)
                continue
            settled = self._settled(event, scripted=bool(task))
            if settled is not None:
                if isinstance(settled, Gone) and (gone := self.engine.state.tasks.get(settled.key)) is not None:
                    self._left.append(gone.job.key if gone.job is not None else "")
                self.engine.apply(settled)
                found.append(settled)
        for key in sorted(key for key in self._to_delete if not self._is_unfinished(key)):
            self._to_delete.remove(key)
            self.engine.apply(Gone(JobSpec, key))
            found.append(Gone(JobSpec, key))
        return found

    def _replace_engine(self, event: EngineReplaced) -> None:
        if self.replaces_engine:
            config = read_config(event.config, event.source)
            self.engine = reconfigured(self.engine, config, plugin_factories(config))

    def _restart_engine(self, event: EngineRestarted) -> None:
        heading = event.start.heading
        if not self.restarts_engine:
            self._replace_engine(EngineReplaced(heading.source, heading.config))
            return
        config, registry = read_config(heading.config, heading.source), self.engine.state.registry
        self.engine = restore_engine(event.start.snapshot, config, plugin_factories(config), registry, heading.cooldown)
        for one in event.events:
            self.engine.apply(one)

    def _is_unfinished(self, key: str) -> bool:
        job = self.engine.state.jobs.get(key)
        return job is not None and any(task.status < TaskStatus.SUCCEEDED for task in job.tasks.values())

    def _settled(self, event: Event, *, scripted: bool) -> Event | None:
        """An event as it is here, where decisions may be others than in the log; None: it does not happen."""
        if isinstance(event, Gone):
            if event.kind is JobSpec and event.key not in self.history.cancelled and self._is_unfinished(event.key):
                self._to_delete.add(event.key)
                return None
            if event.kind is Queue and event.key in self.kept_queues:
                return None
            if (
                event.kind is TaskSpec
                and not scripted
                and event.key in self.history.binds
                and self._generation[event.key]
            ):
                return None
            return event
        if not isinstance(event, Changed):
            return event
        described = event.object
        if isinstance(described, Queue) and described.name in self.kept_queues:
            known = self.engine.state.queues.get(described.name)
            return Changed(replace(known, state=described.state)) if known is not None else None
        if isinstance(described, JobSpec):
            job = self.engine.state.jobs.get(described.key)
            return event if job is None or job.spec is None else Changed(replace(described, phase=job.phase))
        if isinstance(described, TaskSpec) and not scripted and self._generation[described.key]:
            return None
        return event

    # --- what follows from decisions --------------------------------------------------------------------------------

    def _bound(self, decision: Bind) -> None:
        task, number = decision.task, self._binds[decision.task]
        self._binds[task] += 1
        self._nodes[task] = decision.node
        script = self.history.script_of_bind(task, number)
        if script is None:
            spec = self.engine.state.tasks[task].spec
            running = replace(spec, status=TaskStatus.RUNNING, node=decision.node, started=self.now)
            self._schedule(task, [TimedEvent(0, 0, Changed(running))], shift=0)
            return
        runs = self.history.binds[task]
        self._schedule(task, script, shift=self.now - runs[min(number, len(runs) - 1)].anchor)

    def _evicted(self, decision: Evict) -> None:
        task, number = decision.task, self._evictions[decision.task]
        self._evictions[task] += 1
        recorded = self.history.evictions.get(task, [])
        if number < len(recorded):
            self._schedule(task, recorded[number].events, shift=self.now - recorded[number].anchor)
            return
        spec = self.engine.state.tasks[task].spec
        again = replace(spec, status=TaskStatus.PENDING, node=None, started=0, created=self.now + self.grace)
        leaving = replace(spec, status=TaskStatus.RELEASING, node=decision.node)
        events: list[Event] = [Changed(leaving), Gone(TaskSpec, task), Changed(again)]
        times = (0, self.grace, self.grace)
        self._schedule(task, [TimedEvent(time, 0, one) for time, one in zip(times, events, strict=True)], shift=0)

    def _schedule(self, task: str, script: list[TimedEvent], *, shift: int) -> None:
        """Let the consequences of a decision happen, moved in time, and on the node that was decided here."""
        self._generation[task] += 1
        for one in script:
            self._serial += 1
            event = self._moved(one.event, shift)  # type: ignore[arg-type]  # only outside
            serial = one.serial or self._serial
            heappush(self._queue, (self.now + one.time, serial, task, self._generation[task], event))

    def _moved(self, event: Event, shift: int) -> Event:
        if not isinstance(event, Changed) or not isinstance(event.object, TaskSpec):
            return event
        task = event.object
        if task.status is TaskStatus.PENDING:
            return Changed(replace(task, created=task.created + shift)) if shift else event
        node = self._nodes.get(task.key, task.node)
        if not shift and node == task.node:
            return event
        return Changed(replace(task, node=node, started=task.started + shift if task.started else 0))

    def _refresh_phases(self, events: list[Event], decisions: list[Decision]) -> None:
        """Report the phases that follow from tasks, as the scheduler does after a cycle."""
        state = self.engine.state
        moved = dict.fromkeys(one.job for one in decisions if isinstance(one, Bind | Evict))
        moved |= dict.fromkeys(self._left)
        self._left.clear()
        for event in events:
            if isinstance(event, Changed) and isinstance(event.object, JobSpec):
                moved[event.object.key] = None
            elif isinstance(event, Changed) and isinstance(event.object, TaskSpec):
                moved[event.object.job or ""] = None
            elif isinstance(event, BindFailed | EvictFailed) and (task := state.tasks.get(event.task)) is not None:
                moved[task.job.key if task.job is not None else ""] = None
        waiting = Counter(task.job for task in self.engine.context.pipelined.tasks)
        for key in moved:
            job = state.jobs.get(key)
            if job is not None and job.spec is not None and (phase := phase_of(job, waiting[job])) is not job.phase:
                self.engine.apply(Changed(replace(job.spec, phase=phase)))
