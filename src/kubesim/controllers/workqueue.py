"""What a controller has to look at: keys, each once, none twice at the same time, a few side by side.

Side by side because a write is answered when it is on disk, and one trip to the disk carries all that wait for it.
A look that fails is repeated, later each time; a look may also ask to be repeated after a while.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice

from kubesim.api.status import ApiError

log = logging.getLogger(__name__)

FIRST_RETRY = 0.05
LAST_RETRY = 30.0

Look = Callable[[str], Awaitable[float | None]]
"""Looks at a key; may answer in how many real seconds it wants to look again."""


class WorkQueue:
    """Keys that want to be looked at, now or later."""

    def __init__(self, look: Look, *, at_once: int = 64) -> None:
        self._look = look
        self._at_once = at_once
        self._ready: dict[str, None] = {}  # in order of arrival
        self._later: list[tuple[float, str]] = []
        self._moment: dict[str, float] = {}  # the soonest repetition of each key; others in the heap are void
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    def add(self, key: str) -> None:
        """Look at this key, soon."""
        self._moment.pop(key, None)
        self._ready[key] = None
        self._news.set()

    def add_later(self, key: str, seconds: float) -> None:
        """Look at this key after so many real seconds, unless a look is due before."""
        moment = asyncio.get_running_loop().time() + seconds
        if key not in self._ready and moment < self._moment.get(key, float("inf")):
            self._moment[key] = moment
            heapq.heappush(self._later, (moment, key))
            self._news.set()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look at now."""
        return not self._ready and not self._busy

    async def run(self) -> None:
        """Look at what there is to look at, until cancelled."""
        try:
            while True:
                self._news.clear()
                wait = self._wake()
                self._start()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._news.wait()
        finally:
            for task in self._tasks:
                task.cancel()

    def _wake(self) -> float | None:
        """Make ready what is due. Returns how long until the next is; None: nothing waits."""
        now = asyncio.get_running_loop().time()
        while self._later:
            moment, key = self._later[0]
            if self._moment.get(key) == moment:
                if moment > now:
                    return moment - now
                del self._moment[key]
                self._ready[key] = None
            heapq.heappop(self._later)
        return None

    def _start(self) -> None:
        room = self._at_once - len(self._busy)
        for key in list(islice((key for key in self._ready if key not in self._busy), room)):
            del self._ready[key]
            self._busy.add(key)
            task = asyncio.create_task(self._carry_out(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, key: str) -> None:
        try:
            again = await self._look(key)
            self._failures.pop(key, None)
        except Exception as error:  # one bad object must not end the controller for all the others
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            again = min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures - 1, 20))
            if isinstance(error, ApiError):
                log.debug("%s: %s; again in %.2f s", key, error, again)
            else:
                log.exception("%s: again in %.2f s", key, again)
        finally:
            self._busy.discard(key)
            self._news.set()
        if again is not None:
            self.add_later(key, again)
