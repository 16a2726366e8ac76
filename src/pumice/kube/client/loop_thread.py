"""A thread with its own event loop, for work that must not wait for the caller's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in its thread while its context lasts."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._entered = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run a coroutine in that loop; cancelling the returned future cancels it."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context there, for as long as this one lasts."""
        return await self.run(self._entered.enter_async_context(context))

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._entered.aclose()
