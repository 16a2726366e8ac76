"""The bindings that wait to be sent, in the order of the decisions, and what waits behind them.

A binding starts a pod; a status or an Event tells of it, and costs the API server as much. So these are held behind the
bindings that were decided before them, for ``HOLD_SECONDS`` at most: bindings may have to wait for their rate limit,
while the API server has little to do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from pumice.scheduler.cluster_cache import Assumption

HOLD_SECONDS = 10.0
"""The most seconds for which a write is held behind bindings."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that is to be bound."""

    key: str
    node: str
    assumed: Assumption
    cards: tuple[int, ...]


class BindingQueue:
    """Bindings in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Binding] = deque()
        self._added = self._taken = 0  # so far
        self._held: deque[tuple[int, float, asyncio.Event]] = deque()
        """Behind how many bindings, until when at the latest, and what is set then; both rise."""
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, binding: Binding) -> None:
        """Append a binding."""
        self._waiting.append(binding)
        self._added += 1

    def take(self) -> Binding | None:
        """The next binding; None if none waits."""
        if not self._waiting:
            return None
        self._taken += 1
        if self._held and self._held[0][0] <= self._taken:
            self._let_go()
        return self._waiting.popleft()

    def hold(self, over: asyncio.Event) -> None:
        """Set an event when all bindings that wait now were taken, and after ``HOLD_SECONDS`` at the latest."""
        if not self._waiting:
            over.set()
            return
        loop = asyncio.get_running_loop()
        self._held.append((self._added, loop.time() + HOLD_SECONDS, over))
        if self._alarm is None:
            self._alarm = loop.call_later(HOLD_SECONDS, self._ring)

    async def let_pass(self) -> None:
        """Wait as ``hold`` says."""
        if self._waiting:
            self.hold(over := asyncio.Event())
            await over.wait()

    def _ring(self) -> None:
        self._alarm = None
        loop = asyncio.get_running_loop()
        self._let_go(loop.time())
        if self._held:
            self._alarm = loop.call_at(self._held[0][1], self._ring)

    def _let_go(self, now: float = 0.0) -> None:
        held = self._held
        while held and (held[0][0] <= self._taken or held[0][1] <= now):
            held.popleft()[2].set()
        if not held and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
