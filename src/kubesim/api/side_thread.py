"""A thread for expensive parts of requests, so that the event loop has time for other clients meanwhile.

A write is a generator of steps: what it yields are functions that need nothing but the request's own objects; what it
does between them reads or changes the state of the server. A small write runs from beginning to end without a pause.
The steps of a large one run in the thread, one large request at a time: Python hands the interpreter to the event loop
every few milliseconds, so that a step of a second delays others by milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

Steps = Generator[Callable[[], Any], Any, T]
"""Yields steps, receives what they return, and returns a result."""

LARGE = 16 * 1024
"""Bytes of JSON from which a document takes milliseconds: some 40 ms with the most expensive content known."""


class SideThread:
    """The thread. It is started by the first large request."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, computed in the thread after all that waits already."""
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, "large-requests")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def run_steps(self, steps: Steps[T]) -> T:
        """Run the steps of a write in the thread, and what lies between them here."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self.run(step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # the type of a generator's result is lost here


def run_steps_here(steps: Steps[T]) -> T:
    """Run a write at once."""
    try:
        step = next(steps)
        while True:
            step = steps.send(step())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # the type of a generator's result is lost here
