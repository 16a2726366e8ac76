"""The work queue of a controller: each key is in it once, several keys are reconciled at a time, failures are retried.

No key is reconciled twice at the same time. A key that is added while it is being reconciled is reconciled again
afterwards. Keys may be delayed: by the caller, by the reconciler, or because reconciling failed.

Keys are reconciled in parallel because an API server answers a write once it is on disk, and one sync of the disk
serves all writes that wait for it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

log = logging.getLogger(__name__)

DEFAULT_WORKERS = 16

Reconcile = Callable[[str], Awaitable[float | None]]
"""Reconciles a key; returns after how many seconds it is to be reconciled again, or None."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a key whose reconciling has failed is reconciled again, and how the failure is logged."""

    first_delay: float = 0.05
    """Seconds before the first retry; the delay doubles with each further failure of the key."""
    longest_delay: float = 30.0
    jitter: float = 0.0
    """The part of the delay, from 0 to 1, that is shortened at random, so that retries of many keys spread."""
    expected_errors: tuple[type[Exception], ...] = ()
    """Errors that are part of normal operation, such as conflicts; all others are logged as errors."""
    expected_level: int = logging.DEBUG
    """The level at which expected errors are logged."""
    requested_delay: Callable[[Exception], float] | None = None
    """How many seconds the server asked to wait, by the error; the delay is at least as long."""

    def delay(self, failures: int, error: Exception) -> float:
        """Seconds to wait after this many failures in a row, the latest being this error."""
        delay = min(self.longest_delay, self.first_delay * 2.0 ** min(failures - 1, 32))
        delay *= random.uniform(1.0 - self.jitter, 1.0)
        return max(delay, self.requested_delay(error)) if self.requested_delay else delay


class WorkQueue:
    """The keys that a controller has to reconcile, now or after a delay."""

    def __init__(
        self, reconcile: Reconcile, *, workers: int = DEFAULT_WORKERS, retries: RetryPolicy | None = None
    ) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._retries = retries or RetryPolicy()
        self._ready: dict[str, None] = {}  # in order of arrival
        self._delayed: list[tuple[float, str]] = []  # a heap
        self._due: dict[str, float] = {}  # when a delayed key is due; other entries of it in the heap are void
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}  # failures in a row
        self._wake = asyncio.Event()

    def add(self, key: str) -> None:
        """Reconcile this key as soon as a worker is free; once more if it is being reconciled now."""
        self._due.pop(key, None)
        self._ready[key] = None
        self._wake.set()

    def add_later(self, key: str, seconds: float) -> None:
        """Reconcile this key after a delay, unless it is due earlier anyway."""
        due = asyncio.get_running_loop().time() + seconds
        if key not in self._ready and due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._delayed, (due, key))
            self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether no key is ready and none is being reconciled; keys may be delayed."""
        return not self._ready and not self._busy

    async def run(self) -> None:
        """Reconcile keys until cancelled; returns when what was being reconciled has been cancelled as well."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                wait = self._release_due_keys()
                self._start_workers(tasks)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    def _release_due_keys(self) -> float | None:
        """Make delayed keys ready that are due. Returns the seconds until the next one is; None if none is delayed."""
        now = asyncio.get_running_loop().time()
        while self._delayed:
            due, key = self._delayed[0]
            if self._due.get(key) == due:
                if due > now:
                    return due - now
                del self._due[key]
                self._ready[key] = None
            heapq.heappop(self._delayed)
        return None

    def _start_workers(self, tasks: asyncio.TaskGroup) -> None:
        free = self._workers - len(self._busy)
        for key in list(islice((key for key in self._ready if key not in self._busy), free)):
            del self._ready[key]
            self._busy.add(key)
            tasks.create_task(self._reconcile_key(key))

    async def _reconcile_key(self, key: str) -> None:
        try:
            again = await self._reconcile(key)
            self._failures.pop(key, None)
        except Exception as error:  # one bad object must not stop the controller for all others
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            again = self._retries.delay(failures, error)
            if isinstance(error, self._retries.expected_errors):
                words = 'Failed to reconcile, retrying: key=%s error="%s" retryAfter=%.2fs'
                log.log(self._retries.expected_level, words, key, error, again)
            else:
                log.exception("Failed to reconcile, retrying: key=%s retryAfter=%.2fs", key, again)
        finally:
            self._busy.discard(key)
            self._wake.set()
        if again is not None:
            self.add_later(key, again)
