"""The scheduling loop: collect changes, run a cycle of the engine, execute its decisions, and wait for more.

The cost of a cycle depends on what changed, so the loop runs one after every change, following a short delay in which
more changes may arrive; and once per period in any case, because reservations and cooldowns expire without an event.
The engine receives changes only between cycles, in the order in which they arrived.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubebase.resource_vector import Registry
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.writer import DecisionLog
from pumice.engine.checkpoint.restore import restore_engine, snapshot_engine
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine, ignore_step
from pumice.engine.events import Event
from pumice.engine.plugins.builtin.pdb import PdbPlugin
from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown
from pumice.kube.client.api import Api
from pumice.kube.client.session import Limits
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.event_recorder import EventRecorder
from pumice.kube.resources import (
    HYPER_NODES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
)
from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.kube.watch.initial_sync import initial_changes
from pumice.scheduler.binder import WRITE_RATE, Binder
from pumice.scheduler.binding_queue import BindingQueue
from pumice.scheduler.cluster_cache import ClusterCache
from pumice.scheduler.config_watcher import ConfigWatcher
from pumice.scheduler.enqueue_conditions import EnqueueConditions
from pumice.scheduler.pod_conditions import PodConditions
from pumice.scheduler.podgroup_status_updater import PodGroupStatusUpdater
from pumice.scheduler.queue_status_updater import QueueStatusUpdater
from pumice.scheduler.slewed_clock import SlewedClock
from pumice.scheduler.volumes.volume_cache import STORAGE_RESOURCES

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds after which a cycle runs even without changes."""
GATHER = 0.02
"""Seconds from one cycle to the next in which changes are collected: so many, or twice what a short cycle takes."""
FIRST_GATHER = 0.002
"""The same after the first change in a quiet time: those that come with it, but no longer."""
BUSY_GATHER, BUSIEST_GATHER = 0.1, 0.25
"""Seconds in which changes are collected while decisions wait to be written: a cycle more would only make the line
longer. The more wait, the longer, but not until all are written."""
READ_GATHER = 0.05
"""Seconds in which events of a watch gather meanwhile before they are read: half of the shortest such time."""
FASTEST_WRITES = 8000
"""Bindings per second that no API server exceeds."""
BUSY = 2 * Limits().in_flight
"""Bindings and evictions in flight from which on decisions wait: twice as many as are sent at a time."""

STALLED = 30.0
"""Seconds without a cycle after which the scheduler is unhealthy: one runs in every period."""

WATCHED = (
    *(HYPER_NODES, NODES, QUEUES, PRIORITY_CLASSES, RESOURCE_QUOTAS, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS),
    *STORAGE_RESOURCES,
)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A completed cycle, for watchers."""

    number: int  # counted from 1
    started: float  # in seconds of the scheduler's clock
    seconds: float  # duration, from applying the changes to starting to execute the decisions
    events: tuple[Event, ...]  # applied before it
    decisions: tuple[Decision, ...]
    engine: Engine


class Scheduler:
    """Schedules one cluster until cancelled."""

    def __init__(
        self,
        api: Api,
        config: SchedulerConfig,
        *,
        now: Callable[[], float] | None = None,
        cooldown: PreemptionCooldown = NO_COOLDOWN,
        config_file: ConfigWatcher | None = None,
        decision_log: DecisionLog | None = None,
        schedulers: Collection[str] = SCHEDULERS,
        write_rate: int = WRITE_RATE,
        trace: bool = False,
    ) -> None:
        self._now = now if now is not None else SlewedClock()
        self._feed = ChangeQueue()
        self._registry = Registry()
        self.engine = Engine(config, plugin_factories(config), self._registry, cooldown)
        self.engine.context.tracing = trace  # checkpoints carry it over to later engines
        self.config = config  # in force
        self.config_refused = ""  # why the latest configuration was rejected; empty: it was not
        self._wanted: SchedulerConfig | None = None  # to be in force from the next cycle on
        self._config_file = config_file
        self.decision_log = decision_log
        self.cache = ClusterCache(
            self._registry, lambda error: log.warning('Failed to decode an object: error="%s"', error), schedulers
        )
        bindings = BindingQueue()
        self._recorder = EventRecorder(api, "pumice", let_pass=bindings.let_pass)
        self.binder = Binder(
            api, self.cache, self._recorder, self._report_failures, write_rate, self._budgets_count, bindings
        )
        self._phases = PodGroupStatusUpdater(self.binder)
        self._queues = QueueStatusUpdater(self.binder)
        self._pods = PodConditions(lambda: self.engine, self.binder, self._recorder, self.cache)
        self._waiting = EnqueueConditions(lambda: self.engine, self.binder, self._recorder)
        self._schedulers = schedulers
        self._queues.announce(config, schedulers)
        self._informers: list[Informer[object]] = [
            Informer(api, resource, self._feed, pause=self._read_pause)  # type: ignore[arg-type]  # each reads its own kind, the feed takes all
            for resource in WATCHED
        ]
        self._heard: list[Event] = []
        self._changes: list[Change[Any]] = []  # applied to the engine since the last cycle
        self._told: list[Event] = []  # since the last cycle
        self._woken = asyncio.Event()
        self.cycles = 0
        self.on_step: Callable[[str], None] = ignore_step  # hears which step of a cycle begins
        self.watchers: list[Callable[[Cycle], None]] = []  # called after each cycle; must not change the engine
        self._begun = False
        self._last = time.monotonic()  # end of the last cycle
        self._cycle_seconds = GATHER  # how long it took
        self._sync_seconds = 0.0  # from the start of the informers until the engine had their first lists
        self._build_seconds = 0.0  # of these, for converting objects and building the state of the engine

    def _budgets_count(self) -> bool:
        """Whether the configuration in force lets disruption budgets hold off evictions."""
        return any(plugin.name == PdbPlugin.name for plugin in self.config.plugins)

    @property
    def informers(self) -> Sequence[Informer[object]]:
        """The informers of the watched resources."""
        return self._informers

    @property
    def changes_waiting(self) -> int:
        """How many changes the engine has not received yet."""
        return len(self._feed)

    @property
    def ready(self) -> bool:
        """Whether all informers have synced."""
        return all(informer.synced.is_set() for informer in self._informers)

    @property
    def queue_conditions(self) -> Collection[str]:
        """The conditions of queues that hold, as ``queue/type``."""
        return self.engine.context.decided.queue_conditions.keys()

    @property
    def alive(self) -> bool:
        """Whether cycles run: the last one ended recently. Waiting for the first sync counts as alive."""
        return not self._begun or time.monotonic() - self._last < STALLED

    @property
    def configuration_error(self) -> str:
        """Why the configuration file is not in force; empty: it is."""
        return self.config_refused or (self._config_file.problem if self._config_file is not None else "")

    def _report_failures(self, events: Iterable[Event]) -> None:
        """Queue the events for decisions that could not be executed, and wake the loop."""
        self._heard += events
        self._woken.set()

    async def run(self) -> None:
        """Watch the cluster and schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            tasks.create_task(self._recorder.run())
            if self._config_file is not None:
                tasks.create_task(self._config_file.watch(self.reconfigure))
            began = time.monotonic()
            self._replace_engine(int(self._now() * 1_000_000))  # opens the decision log before the first event
            async for changes in initial_changes(self._feed, self._informers):
                self._take_in(changes)
            self._begun, self._last = True, time.monotonic()
            self._sync_seconds = self._last - began
            self.cycle()
            tasks.create_task(self._pods.run())
            tasks.create_task(self._waiting.run())
            tasks.create_task(self.binder.retire_conditions(lambda *about: "/".join(about) in self.queue_conditions))
            while True:
                await self._wait_for_changes()
                self.cycle()

    async def done(self) -> None:
        """Wait for the decisions that are being executed, but not for volumes."""
        self.binder.stop_waiting()
        await self.binder.done()
        if self.decision_log is not None:
            self.decision_log.close()

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Switch to another configuration before the next cycle, if its engine can be built."""
        self._wanted = config
        self._woken.set()

    def cycle(self) -> None:
        """Apply the pending changes, run a cycle, and start to execute its decisions."""
        began, now = time.perf_counter(), self._now()
        self._replace_engine(int(now * 1_000_000))
        heard, self._heard = self._heard, []
        for event in heard:
            self._deliver(event)
        self._take_in(self._feed.drain())
        changes, self._changes = self._changes, []
        for event in self.cache.settled_events():
            self._deliver(event)
        decisions = self._decide(int(now * 1_000_000))
        told, self._told = tuple(self._told), []
        self.binder.execute(decisions)
        for event in self._phases.refresh(self.engine, changes, decisions, heard):
            self._deliver(event)
        self._pods.note_cycle(changes, decisions)
        self._waiting.note_cycle(changes, decisions)
        self._queues.refresh(self.engine, changes, moved=bool(changes or decisions or heard))
        cycle = Cycle(self.cycles, now, time.perf_counter() - began, told, tuple(decisions), self.engine)
        for watcher in self.watchers:
            watcher(cycle)
        self._last, self._cycle_seconds = time.monotonic(), time.perf_counter() - began
        if self.cycles == 1:
            log.info(
                "Completed the first cycle: objects=%d sync=%.2fs build=%.2fs cycle=%.2fs",
                *(len(changes), self._sync_seconds, self._build_seconds, time.perf_counter() - began),
            )

    def _take_in(self, changes: list[Change[Any]]) -> None:
        """Apply changes of the cluster to the engine."""
        began = time.perf_counter()
        for change in changes:
            for event in self.cache.events_for(change):
                self._deliver(event)
        self._changes += changes
        if not self.cycles:
            self._build_seconds += time.perf_counter() - began

    def _deliver(self, event: Event) -> None:
        """Apply an event to the engine. Every event passes here, so that the decision log is complete."""
        if self.decision_log is not None:
            self.decision_log.told(event, self._registry)
        self._told.append(event)
        self.engine.apply(event)

    def _decide(self, now: int) -> list[Decision]:
        recorded = self.decision_log
        if recorded is not None:
            recorded.decides(self._registry)
        decisions = self.engine.cycle(now, self.on_step)
        self.cycles += 1
        if recorded is not None:
            recorded.decided(self.cycles, now, decisions, self.engine)
        return decisions

    def _replace_engine(self, now: int) -> None:
        """Between cycles: replace the engine if the configuration changed or the decision log starts a new file.

        The new engine is restored from a snapshot of the present one. If that fails, the present one continues
        unchanged.
        """
        wanted, self._wanted = self._wanted, None
        recorded = self.decision_log if self.decision_log is not None and self.decision_log.wants_another else None
        if wanted is None and recorded is None:
            return
        before, config = self.engine, wanted or self.config
        snapshot = snapshot_engine(before)
        try:
            engine = restore_engine(snapshot, config, plugin_factories(config), self._registry, before.cooldown)
        except Exception as error:  # a plugin may raise anything; it must not stop the scheduler
            what = f"{config.source}: {type(error).__name__}: {error}"
            if wanted is not None:
                self.config_refused = what
                log.error('Rejected the new configuration, the previous one stays in force: error="%s"', what)
            elif recorded is not None:
                recorded.stop(error)
            return
        self.engine = engine
        if wanted is not None:
            self.config, self.config_refused = wanted, ""
            self._queues.announce(wanted, self._schedulers)
            log.warning("Loaded the configuration: source=%s", config.source)
        if self.decision_log is not None:
            self.decision_log.begin(config, engine.cooldown, self._registry, self.cycles, snapshot, now)

    async def _wait_for_changes(self) -> None:
        """Wait for a change, and a moment longer to collect more."""
        self._woken.clear()
        waiting = [asyncio.ensure_future(self._feed.wait_nonempty()), asyncio.ensure_future(self._woken.wait())]
        try:
            done, _ = await asyncio.wait(waiting, timeout=PERIOD, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        if done:
            await asyncio.sleep(self._gather_seconds())

    def _read_pause(self) -> float:
        """How long informers let events gather: not at all, unless the next cycle is far."""
        return READ_GATHER if self.binder.in_flight >= BUSY else 0.0

    def _gather_seconds(self) -> float:
        """How long to collect changes before the next cycle."""
        waiting = self.binder.in_flight
        if waiting >= BUSY:
            return min(max(BUSY_GATHER, waiting / FASTEST_WRITES), BUSIEST_GATHER)
        pause = min(GATHER, 2 * self._cycle_seconds)
        return max(FIRST_GATHER, self._last + pause - time.monotonic())
