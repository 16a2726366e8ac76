"""Keeps the board up to date: informers feed the picture, and a few times a second the board follows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from pumice.kube.client.api import Api
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.ui.board import Board, now_text, restricted_event
from pumice.ui.stream import StreamHub
from pumice.ui.values import SECOND, Document, time_text

TICK_SECONDS, LONGEST_TICK_SECONDS = 0.25, 0.5
"""Seconds between two refreshes of the board: changes within are sent together. After much was sent it takes longer."""
BYTES_PER_SECOND = 200_000
"""Bytes of events, before compression, that a viewer is sent in a second, if no change has to wait longer for it."""
BEAT_SECONDS = 5.0


class DecisionSource(Protocol):
    """Where binds and evictions come from."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The informers that it needs."""
        ...

    def poll(self) -> None:
        """Take the decisions that have come."""

    def close(self) -> None:
        """Let go of what is open."""


class BoardWatcher:
    """Runs the informers, refreshes the board and publishes its events."""

    def __init__(self, api: Api, board: Board, decisions: DecisionSource) -> None:
        self.board = board
        self._decisions = decisions
        self.hub = StreamHub(board.epoch, restricted_event)
        self.complete = asyncio.Event()
        """Set when the board shows all objects of the first lists."""
        self._feed = ChangeQueue()
        seen = board.picture.seen
        self._informers: list[Informer[Any]] = [
            Informer(api, seen.queues, self._feed),
            Informer(api, seen.nodes, self._feed),
            Informer(api, seen.groups, self._feed),
            Informer(api, seen.pods, self._feed),
            *decisions.informers,
        ]
        self._behind_since = 0

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The informers of the watched resources."""
        return self._informers

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        try:
            await self._run()
        finally:
            self._decisions.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            await self._sync()
            tasks.create_task(self._beat())
            while True:
                size = self._publish(self.board.refresh())
                await asyncio.sleep(min(LONGEST_TICK_SECONDS, max(TICK_SECONDS, size / BYTES_PER_SECOND)))
                self.board.picture.apply(self._feed.drain())
                self._decisions.poll()

    async def _sync(self) -> None:
        """Take the first lists as they come: the feeds must not fill up."""
        picture = self.board.picture
        while not all(informer.synced.is_set() for informer in self._informers):
            picture.apply(self._feed.drain())
            await asyncio.sleep(0.02)
        picture.apply(self._feed.drain())
        self._decisions.poll()
        self.board.refresh()
        self.complete.set()

    def _publish(self, events: list[tuple[str, Document]]) -> int:
        return self.hub.publish(events) if events else 0

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.hub.publish([("beat", {"time": now_text(), "connection": self.connection()})])

    def connection(self) -> Document:
        """Whether the watches of the cluster work."""
        behind = [informer.resource.plural for informer in self._informers if informer.last_error is not None]
        if not behind:
            self._behind_since = 0
        elif not self._behind_since:
            self._behind_since = int(time.time()) * SECOND
        return {"connected": not behind, "behind": behind, "since": time_text(self._behind_since)}

    def hello(self) -> Document:
        """The first event for a viewer."""
        return {
            "epoch": self.board.epoch,
            "time": now_text(),
            "versions": dict(self.board.versions),
            "connection": self.connection(),
        }
