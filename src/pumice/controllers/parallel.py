"""Several writes side by side: a few at a time, and all of them tried before a failure is one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

AT_ONCE: Final = 16


async def gather_limited(work: Iterable[Coroutine[Any, Any, None]], at_once: int = AT_ONCE) -> None:
    """Do all of it. If something fails, the first failure is raised when everything has been tried."""
    gate = asyncio.Semaphore(at_once)

    async def one(each: Coroutine[Any, Any, None]) -> None:
        async with gate:
            await each

    parts = list(work)
    try:
        outcomes = await asyncio.gather(*(one(each) for each in parts), return_exceptions=True)
    finally:
        for each in parts:
            each.close()  # if it was never begun: cancelled before
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
