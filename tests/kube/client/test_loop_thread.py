"""A thread beside: it goes on while its author is busy, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator

import pytest

from pumice.kube.client.loop_thread import LoopThread


def test_loop_thread_runs_tasks_while_calling_thread_is_busy() -> None:
    async def run() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        async with LoopThread("beside") as aside:
            aside.run(tick())
            before = ticks
            time.sleep(0.5)
            assert ticks > before + 1

    asyncio.run(run())


def test_loop_thread_raises_errors_of_tasks_in_caller() -> None:
    async def fail() -> None:
        raise ValueError("there")

    async def run() -> None:
        async with LoopThread("beside") as aside:
            with pytest.raises(ValueError, match="there"):
                await aside.run(fail())

    asyncio.run(run())


def test_loop_thread_cancels_tasks_and_exits_contexts_on_close() -> None:
    said = []

    @contextlib.asynccontextmanager
    async def context() -> AsyncIterator[int]:
        said.append(f"in {threading.current_thread().name}")
        yield 7
        said.append("out")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            said.append("cancelled")

    async def run() -> None:
        async with LoopThread("beside") as aside:
            assert await aside.enter(context()) == 7
            waiting = aside.run(wait())
            await asyncio.sleep(0.05)
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(run())
    assert said == ["in beside", "cancelled", "out"]
    assert all(thread.name != "beside" for thread in threading.enumerate())
