"""Notification of waiters when a key under a prefix changes."""

from __future__ import annotations

import asyncio

from kubesim.storage.key_index import above


class PrefixNotifier:
    """Wakes the waiters for a prefix when a key under it changes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}  # by prefix

    async def wait(self, prefix: str, deadline: float | None) -> None:
        """Wait until it rings for a prefix, or for the deadline (as the loop counts time)."""
        woken: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(prefix, set()).add(woken)
        alarm = self._loop.call_at(deadline, _wake, woken) if deadline is not None else None
        try:
            await woken
        finally:
            if alarm:
                alarm.cancel()
            others = self._waiting.get(prefix)
            if others is not None:
                others.discard(woken)
                if not others:
                    del self._waiting[prefix]

    def notify(self, key: str) -> None:
        """Wake the waiters for the prefixes of a changed key."""
        if self._waiting:
            for prefix in above(key):
                for woken in self._waiting.pop(prefix, ()):
                    _wake(woken)

    def notify_all(self) -> None:
        """Wake all waiters."""
        for waiting in self._waiting.values():
            for woken in waiting:
                _wake(woken)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
