"""Run several writes in parallel: a limited number at a time, and all of them before a failure is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

AT_ONCE: Final = 16


async def gather_limited(work: Iterable[Coroutine[Any, Any, None]], at_once: int = AT_ONCE) -> None:
    """Run all coroutines. If any fails, the first failure is raised once all have run."""
    gate = asyncio.Semaphore(at_once)

    async def one(each: Coroutine[Any, Any, None]) -> None:
        async with gate:
            await each

    parts = list(work)
    try:
        outcomes = await asyncio.gather(*(one(each) for each in parts), return_exceptions=True)
    finally:
        for each in parts:
            each.close()  # if it was never started: cancelled before
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
