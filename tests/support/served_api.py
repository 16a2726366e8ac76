"""An API of this process behind HTTP, for tests of clients."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubesim.api.client import InProcessClient
from kubesim.http.listen import bind_sockets, serve_http


@asynccontextmanager
async def served(
    api: InProcessClient, port: int = 0, *, token: str = "", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Answer on loopback; gives the port."""
    with bind_sockets(port=port) as sockets:
        async with serve_http(api, sockets, token=token, tls=tls) as taken:
            yield taken
