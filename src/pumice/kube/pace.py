"""How fast to go: how much of a kind is asked of an API in a second and at a time, and pauses after what failed."""

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
            raise ValueError(f"rate {rate}, burst {burst}: a rate above 0 and a burst of at least 1 are needed")
        self._rate = rate
        self._burst = burst
        self._now = now
        self._pause = pause
        self._tokens = float(burst)  # below 0: so many have been promised to those who wait
        self._at = now()

    async def take(self, tokens: int = 1) -> None:
        """Wait for a token, or some. They are promised on arrival, so nobody overtakes."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - tokens
        self._at = now
        if self._tokens < 0:
            await self._pause(-self._tokens / self._rate)


class Gate:
    """Lets so many in at a time, and no more in a second than the rate says. Use it as ``async with gate``."""

    def __init__(self, at_a_time: int, bucket: TokenBucket) -> None:
        self._places = asyncio.Semaphore(at_a_time)
        self._bucket = bucket

    async def __aenter__(self) -> None:
        await self._places.acquire()
        try:
            await self._bucket.take()
        except BaseException:
            self._places.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._places.release()


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
