"""``pumice ui`` in the loop of a test, and what its HTTP surface answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sockets import bound
from pumice.kube.client.transport import Session
from pumice.ui.access import Authenticator, EverybodyAllowed
from pumice.ui.picture import ClusterPicture
from pumice.ui.process import UiProcess, UiSettings
from pumice.ui.request_guard import LOOPBACK_NAMES, RequestGuard

Document = dict[str, Any]


def _everybody(api: Api, picture: ClusterPicture) -> Authenticator:
    return EverybodyAllowed()


class OpenPage:
    """A client of a running ``pumice ui``."""

    def __init__(self, process: UiProcess, session: aiohttp.ClientSession) -> None:
        self.process = process
        self.session = session

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.process.server.url

    async def get(self, path: str, **headers: str) -> Document:
        """A document; it must be there."""
        async with self.session.get(self.url + path, headers=headers) as response:
            assert response.status == 200, (path, response.status, await response.text())
            found: Document = await response.json()
            return found

    async def answer(self, path: str, **headers: str) -> tuple[int, aiohttp.typedefs.LooseHeaders, bytes]:
        """Status, headers and body of an answer."""
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, response.headers, await response.read()

    async def events(self, query: str = "") -> AsyncIterator[tuple[str, Document]]:
        """The events of the stream."""
        async with self.session.get(f"{self.url}/api/stream{query}") as response:
            assert response.status == 200, await response.text()
            name = ""
            async for line in response.content:
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])


@asynccontextmanager
async def open_page(
    server: str,
    *,
    authenticator: Callable[[Api, ClusterPicture], Authenticator] = _everybody,
    decision_log: Path | None = None,
    history: str = "",
    options: tuple[str, ...] = (),
) -> AsyncIterator[OpenPage]:
    """``pumice ui`` on a cluster, when it is ready."""
    settings = UiSettings(
        bound("127.0.0.1", 0),
        server,
        RequestGuard(LOOPBACK_NAMES),
        authenticator,
        decision_log=decision_log,
        history=history,
        cluster_options=options,
    )
    async with Session(Access(server)) as session, aiohttp.ClientSession(read_bufsize=1 << 20) as client:
        process = UiProcess(Api(session), settings)
        work = asyncio.create_task(process.run())
        try:
            while process.probes().ready():
                if work.done():
                    work.result()
                await asyncio.sleep(0.02)
            yield OpenPage(process, client)
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
