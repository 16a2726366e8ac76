"""The work queue of a controller: each key is in it once, several keys are reconciled at a time, failures are retried.

No key is reconciled by two workers at the same time. The pause before a retry doubles, and is at least as long as the
API asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds
from pumice.kube.client.rate_limit import Backoff

log = logging.getLogger(__name__)

DEFAULT_WORKERS = 16


class WorkQueue:
    """Keys in order of arrival, and the workers that reconcile them; ``run`` until cancelled."""

    def __init__(self, reconcile: Callable[[str], Awaitable[None]], workers: int = DEFAULT_WORKERS) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._waiting: dict[str, None] = {}  # in the order of arrival
        self._busy: set[str] = set()
        self._failures: dict[str, Backoff] = {}
        self._some = asyncio.Event()

    def add(self, key: str) -> None:
        """Reconcile this key soon; once more if a worker is reconciling it now."""
        self._waiting[key] = None
        self._some.set()

    @property
    def idle(self) -> bool:
        """Whether no key waits and no worker is busy."""
        return not self._waiting and not self._busy

    async def run(self) -> None:
        """Reconcile keys as they come."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = next((key for key in self._waiting if key not in self._busy), None)
            if key is None:
                self._some.clear()
                await self._some.wait()
                continue
            del self._waiting[key]
            self._busy.add(key)
            try:
                await self._reconcile(key)
                self._failures.pop(key, None)
            except Exception as error:  # one bad object must not end the controller for all the others
                pause = self._failures.setdefault(key, Backoff()).next(retry_after_seconds(error))
                known = isinstance(error, ApiError | UnreachableError)
                log.log(logging.INFO if known else logging.ERROR, "%s: %r; again in %.1f s", key, error, pause)
                asyncio.get_running_loop().call_later(pause, self.add, key)
            finally:
                self._busy.discard(key)
                self._some.set()
