"""A wire between client and server that can be cut, slowed down, or go dead without a word."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Link:
    """One connection of a client, with the one to the server behind it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    dead: bool = False  # takes everything, passes nothing on

    def cut(self) -> None:
        for end in (self.client, self.server):
            if end is not None:
                end.transport.abort()


@dataclass
class Proxy:
    """Passes bytes on to ``upstream`` as long as it is told nothing else."""

    upstream: int
    port: int = 0
    refusals: int = 0  # connections that are yet to be turned away
    delay: float = 0.0  # seconds before anything is passed on to the client
    scatter: float = 0.0  # up to so many seconds, at random, before anything is passed on to the server
    held: bool = False  # what is for the server waits on the way
    chosen: random.Random = field(default_factory=lambda: random.Random(0))
    allowance: int | None = None  # bytes to the client before everything is cut once
    connections: int = 0
    links: set[_Link] = field(default_factory=set)

    def cut(self) -> None:
        for link in list(self.links):
            link.cut()

    def stall(self) -> None:
        """What is connected stays connected, and hears nothing any more."""
        for link in self.links:
            link.dead = True

    def heal(self) -> None:
        self.refusals, self.delay, self.scatter, self.held, self.allowance = 0, 0.0, 0.0, False, None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = _Link(writer)
        if self.refusals:
            self.refusals -= 1
            link.cut()
            return
        self.links.add(link)
        try:
            with contextlib.suppress(OSError):
                upstream, link.server = await asyncio.open_connection("127.0.0.1", self.upstream)
                ways = [self._pass(link, reader, link.server), self._pass(link, upstream, writer, back=True)]
                _, others = await asyncio.wait(map(asyncio.create_task, ways), return_when=asyncio.FIRST_COMPLETED)
                for other in others:
                    other.cancel()
                await asyncio.gather(*others, return_exceptions=True)
        finally:
            link.cut()
            self.links.discard(link)

    async def _pass(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(65536):
                if back and self.delay:
                    await asyncio.sleep(self.delay)
                if not back and self.scatter:
                    await asyncio.sleep(self.chosen.uniform(0, self.scatter))
                while not back and self.held:
                    await asyncio.sleep(0.01)
                if link.dead:
                    continue
                if back and self.allowance is not None:
                    content, self.allowance = content[: self.allowance], self.allowance - len(content)
                writer.write(content)
                await writer.drain()
                if back and self.allowance is not None and self.allowance < 0:
                    self.allowance = None
                    return


@contextlib.asynccontextmanager
async def unsteady(upstream: int) -> AsyncIterator[Proxy]:
    """A proxy on loopback, in front of a port."""
    proxy = Proxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await asyncio.sleep(0.005)  # who has just been let in is not among the links yet
        while proxy.links:
            proxy.cut()
            await asyncio.sleep(0.001)
