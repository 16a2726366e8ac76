"""Rate limits: a token bucket for requests, and exponential backoff between failed attempts."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` a second after that, in the order in which they came."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate {rate}, burst {burst}: the rate must be greater than 0 and the burst at least 1")
        self._rate = rate
        self._burst = burst
        self._now = now
        self._pause = pause
        self._tokens = float(burst)  # below 0: so many have been promised to those who wait
        self._at = now()

    async def take(self) -> None:
        """Wait for a token. Tokens are assigned in the order of the calls."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        if self._tokens < 0:
            await self._pause(-self._tokens / self._rate)


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
