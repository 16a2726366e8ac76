"""The queue of changes from informers to their consumer: one queue for all, in the order of arrival.

The consumer drains the whole queue. So changes that an informer adds at once, such as the differences that a new list
shows, are never separated. Informers wait while the queue is full, which throttles the server in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

LONG = 10_000  # changes that wait before informers do

T = TypeVar("T")


class Change(Struct, Generic[T], frozen=True, gc=False):
    """An object before and after a change; ``old`` is None if it was created, ``new`` if it was deleted."""

    resource: str
    """The name of the resource: ``pods``, ``queues.scheduling.volcano.sh``."""
    key: str
    """``namespace/name``, or the name alone where there are no namespaces."""
    uid: str
    revision: str
    """The resourceVersion of the object after the change; of a deleted one, the last known."""
    old: T | None
    new: T | None


class ChangeQueue:
    """Where informers put changes, and one reader takes them."""

    def __init__(self, long: int = LONG) -> None:
        self._long = long
        self._waiting: list[Change[Any]] = []
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, change: Change[Any]) -> None:
        """Append a change. Never waits; informers await ``wait_for_space`` between one answer and the next."""
        self._waiting.append(change)
        self._some.set()
        if len(self._waiting) >= self._long:
            self._room.clear()

    async def wait_for_space(self) -> None:
        """Wait until the line is short enough for more."""
        await self._room.wait()

    async def wait_nonempty(self) -> None:
        """Wait for changes."""
        await self._some.wait()

    async def wait_and_drain(self) -> list[Change[Any]]:
        """Wait for changes, and take all there are."""
        await self._some.wait()
        return self.drain()

    def drain(self) -> list[Change[Any]]:
        """Take all there are, perhaps none."""
        changes, self._waiting = self._waiting, []
        self._some.clear()
        self._room.set()
        return changes

    async def __aiter__(self) -> AsyncIterator[list[Change[Any]]]:
        while True:
            yield await self.wait_and_drain()
