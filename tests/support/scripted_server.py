"""A server that answers whatever a test wants it to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from kubesim.http.connection import Connection, Request, Response


@contextlib.asynccontextmanager
async def answering(handler: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[str]:
    """Answer on loopback; gives the address."""
    everyone: set[Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(handler, everyone, 1_000_000), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in list(everyone):
            connection.stop()
        while everyone:
            await asyncio.sleep(0.001)
