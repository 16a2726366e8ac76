"""Rate limits: a token bucket for requests, and exponential backoff between failed attempts."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable

TICK = 0.005
"""Seconds between two ends of shared pauses."""


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` a second after that, in the order in which they came."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate {rate}, burst {burst}: the rate must be greater than 0 and the burst at least 1")
        self._rate = rate
        self._burst = burst
        self._now = now
        self._pause = pause or SharedPauses()
        self._tokens = float(burst)  # below 0: so many have been promised to those who wait
        self._at = now()

    async def take(self) -> None:
        """Wait for a token. Tokens are assigned in the order of the calls."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        if self._tokens < 0:
            await self._pause(-self._tokens / self._rate)


class SharedPauses:
    """Pauses of many tasks, which end together with those that would end within the same few milliseconds.

    A timer for each of thousands of bindings that wait for their tokens would cost more than sending them.
    """

    def __init__(self) -> None:
        self._ends: dict[int, asyncio.Event] = {}  # by the tick at which they ring

    async def __call__(self, seconds: float) -> None:
        """Pause for so long, or up to ``TICK`` longer."""
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds) / TICK)
        end = self._ends.get(tick)
        if end is None:
            end = self._ends[tick] = asyncio.Event()
            loop.call_at(tick * TICK, self._ring, tick)
        await end.wait()

    def _ring(self, tick: int) -> None:
        self._ends.pop(tick).set()


class Backoff:
    """Pauses that double from ``first`` to ``most`` seconds, each shortened at random by up to a half.

    At random, so that clients which a server has lost at one moment do not all come back at another.
    """

    def __init__(self, first: float = 0.1, most: float = 10.0) -> None:
        self._first = first
        self._most = most
        self._failures = 0

    def reset(self) -> None:
        """It went well: the next pause is a short one again."""
        self._failures = 0

    def next(self, least: float = 0.0) -> float:
        """How long to wait after one more failure; at least as long as the server asks for."""
        pause = min(self._most, self._first * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return max(least, pause * random.uniform(0.5, 1.0))
