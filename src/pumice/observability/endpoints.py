"""``/metrics``, ``/healthz``, ``/readyz`` and ``/history`` of a process that works in an event loop.

A thread with its own loop serves them, so that a process can report that its main loop is stuck. ``/healthz`` and
``/readyz`` only read. The main loop collects ``/metrics`` between two of its steps, when all numbers are consistent;
the thread formats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from pumice.kube.client.loop_thread import LoopThread
from pumice.observability.liveness import LoopHeartbeat
from pumice.observability.process_probes import Address, Probes

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SCRAPE_TIMEOUT = 20.0
"""Seconds that a scrape waits for the loop that works: a long cycle may be under way."""

T = TypeVar("T")


class Endpoints:
    """Answers while its context lasts."""

    def __init__(self, address: Address, probes: Probes, pulse: LoopHeartbeat | None = None) -> None:
        self._address = address
        self._probes = probes
        self._pulse = pulse or LoopHeartbeat()
        self._stack = AsyncExitStack()
        self.url = ""
        """Where it answers, when it does."""

    async def __aenter__(self) -> Self:
        self._working = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            aside = await stack.enter_async_context(LoopThread("endpoints"))
            await aside.enter(self._answering())
            stack.callback(asyncio.create_task(self._pulse.run()).cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        if self._probes.metrics is not None:
            application.router.add_get("/metrics", self._metrics)
        if self._probes.history is not None:
            application.router.add_get("/history", self._history)
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            host, port = self._address
            await web.TCPSite(runner, host or None, port).start()
            name, port = runner.addresses[0][:2]
            self.url = f"http://{f'[{name}]' if ':' in name else name}:{port}"
            yield
        finally:
            await runner.cleanup()

    # ---- answers ------------------------------------------------------------------------------------------

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self._pulse.unhealthy_reason() or self._probes.alive(), 500)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self._probes.ready(), 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._probes.metrics is not None
        asked = asyncio.run_coroutine_threadsafe(_call(self._probes.metrics), self._working)
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(asked), SCRAPE_TIMEOUT)
        except TimeoutError:
            return _answer(f"timed out after {SCRAPE_TIMEOUT:.0f} s: a cycle is running", 503)
        text = generate_latest(_Collected(found))
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _history(self, request: web.Request) -> web.Response:
        assert self._probes.history is not None
        status, body = await asyncio.to_thread(self._probes.history, request.query)
        return web.Response(status=status, body=body, content_type="application/json")


def _answer(wrong: str, status: int) -> web.Response:
    return web.Response(text=f"{wrong or 'ok'}\n", status=status if wrong else 200)


async def _call(function: Callable[[], T]) -> T:
    return function()


class _Collected:
    """Metrics that were collected, as the library wants to be given them."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found
