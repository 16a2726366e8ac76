"""Gives memory back that an agent needed while it was busy: it rests most of the time."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress

FIRST_SECONDS, REPEAT_SECONDS = 5.0, 300.0


def release_memory() -> None:
    """Free cyclic garbage, and return free pages to the system where the C library can do that."""
    gc.collect()
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def release_memory_repeatedly() -> None:
    """Release memory soon after the start, which leaves most behind, and now and then."""
    pause = FIRST_SECONDS
    while True:
        await asyncio.sleep(pause)
        release_memory()
        pause = REPEAT_SECONDS
