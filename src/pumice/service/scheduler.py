"""The loop: take what has changed, let the engine decide, carry it out, and wait for more.

A cycle costs what has changed, so one runs whenever something has, after a moment in which more of it may come; and
once in a while in any case, because patience and brakes end by themselves. The engine is told of changes between
cycles only, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from pumice.extensions import plugin_factories
from pumice.kube.api import Api
from pumice.kube.feed import Feed
from pumice.kube.informer import Informer
from pumice.kube.recorder import Recorder
from pumice.kube.resources import (
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
)
from pumice.model.events import Event
from pumice.model.resources import Registry
from pumice.scheduling.config import SchedulerConfig
from pumice.scheduling.engine import Engine
from pumice.service.hands import Hands
from pumice.service.mirror import Mirror
from pumice.service.phases import Phases
from pumice.service.queues import Queues

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds after which a cycle runs although nothing has changed."""
GATHER = 0.02
"""Seconds in which changes are gathered before a cycle."""

WATCHED = (NODES, QUEUES, PRIORITY_CLASSES, RESOURCE_QUOTAS, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS)


class Scheduler:
    """Schedules one cluster until cancelled."""

    def __init__(self, api: Api, config: SchedulerConfig, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._feed = Feed()
        self._registry = Registry()
        self.engine = Engine(config, plugin_factories(config), self._registry)
        self.mirror = Mirror(self._registry, lambda error: log.warning("%s", error))
        self._recorder = Recorder(api, "pumice")
        self.hands = Hands(api, self.mirror, self._recorder, self._hear)
        self._phases = Phases(self.engine, self.hands)
        self._queues = Queues(self.engine, self.hands)
        self._informers: list[Informer[object]] = [Informer(api, resource, self._feed) for resource in WATCHED]  # type: ignore[arg-type]  # each reads its own kind, the feed takes all
        self._heard: list[Event] = []
        self._woken = asyncio.Event()
        self.cycles = 0

    def _hear(self, events: Iterable[Event]) -> None:
        """Something that was decided could not be done."""
        self._heard += events
        self._woken.set()

    async def run(self) -> None:
        """Watch, decide, carry out."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            tasks.create_task(self._recorder.run())
            for informer in self._informers:
                await informer.synced.wait()
            while True:
                self.cycle()
                await self._more()

    async def done(self) -> None:
        """Wait for what is being carried out."""
        await self.hands.done()

    def cycle(self) -> None:
        """Tell the engine what is new, and do what it decides."""
        heard, self._heard = self._heard, []
        for event in heard:
            self.engine.apply(event)
        changes = self._feed.taken()
        for change in changes:
            for event in self.mirror.events(change):
                self.engine.apply(event)
        decisions = self.engine.cycle(int(self._now() * 1_000_000))
        self.cycles += 1
        self.hands.carry_out(decisions)
        self._phases.refresh(changes, decisions)
        self._queues.refresh(changes, moved=bool(changes or decisions))

    async def _more(self) -> None:
        """Wait until there is something to do, and a moment longer for the rest of it."""
        self._woken.clear()
        waiting = [asyncio.ensure_future(self._feed.some()), asyncio.ensure_future(self._woken.wait())]
        try:
            done, _ = await asyncio.wait(waiting, timeout=PERIOD, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        if done:
            await asyncio.sleep(GATHER)
