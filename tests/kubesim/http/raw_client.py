"""A server in this process, and a client that writes bytes: for requests that no decent client would send.

The server runs in a thread with a loop of its own, so that a test is as blocking and as plain as the client it plays.
Every server is new and in memory: what an example does depends on nothing but the example.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubesim import bootstrap, kinds
from kubesim.api.client import InProcessClient
from kubesim.controllers import service_accounts
from kubesim.http.connection import Connection, Request, Response
from kubesim.http.listen import bind_sockets, serve_http
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.registry.registry import Resource, ResourceRegistry
from kubesim.server import ServerSettings, running_cluster
from kubesim.storage import Store
from pumice.embedded import bootstrap as pumice_objects
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.embedded.embedded_cluster import with_pumice
from pumice.embedded.identity import PUMICE

PATIENCE = 20.0
"""Seconds that a client waits for bytes: only a server that hangs takes as long."""


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[Any]) -> Any:
        """What a coroutine gives that runs over there."""

        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(timeout=60)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class LoggedErrors(logging.Handler):
    """What is logged as an error, by us or by asyncio: a task that nobody waited for, a callback that raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


@contextlib.contextmanager
def logged_errors() -> Iterator[list[str]]:
    """Collects what is complained about in the log for the time of a ``with`` block."""
    handler = LoggedErrors()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.found
    finally:
        root.removeHandler(handler)


@cache
def _resources() -> tuple[Resource, ...]:
    return tuple(kinds.resources())


@dataclass
class RunningServer:
    """A server that answers on loopback."""

    port: int
    api: InProcessClient
    broken: asyncio.Future[None] | None = None  # done if a controller ended

    @property
    def revision(self) -> int:
        return self.api.store.revision


@contextlib.contextmanager
def bare_server(loop: Loop) -> Iterator[RunningServer]:
    """The API without controllers: nobody changes anything but who asks."""
    stack = AsyncExitStack()

    async def start() -> RunningServer:
        store = await Store.open(None, PUMICE)
        stack.push_async_callback(store.close)
        api = InProcessClient(store, ResourceRegistry(_resources()), PUMICE)
        api.writes.admission = EmbeddedAdmission(store)
        await service_accounts.create_system_namespaces(api)
        await bootstrap.create_system_classes(api)
        await pumice_objects.create_first_objects(api)
        sockets = stack.enter_context(bind_sockets())
        return RunningServer(await stack.enter_async_context(serve_http(api, sockets)), api)

    yield from _for_a_while(loop, stack, start)


@contextlib.contextmanager
def full_cluster(loop: Loop, speed: float = 100.0) -> Iterator[RunningServer]:
    """All of ``pumice up`` but its process: controllers and two simulated nodes too."""
    stack = AsyncExitStack()
    place = Path(stack.enter_context(TemporaryDirectory(prefix="pumice-wire-")))

    async def start() -> RunningServer:
        wanted = make_nodes(2, parse_capacity("cpu=8,memory=16Gi"))
        settings = ServerSettings(data=None, kubeconfig=place / "kubeconfig", nodes=wanted, speed=speed)
        running = await stack.enter_async_context(running_cluster(with_pumice(settings)))
        return RunningServer(int(running.server.rpartition(":")[2]), running.api, running.broken)

    yield from _for_a_while(loop, stack, start)


@contextlib.contextmanager
def handler_server(
    loop: Loop, handler: Callable[[Request], Awaitable[Response]], most_body: int = 1 << 20
) -> Iterator[Any]:
    """Only connections, over a handler of the test's own: gives the port and the set of those connected."""
    everyone: set[Connection] = set()

    async def start() -> asyncio.Server:
        return await loop.loop.create_server(lambda: Connection(handler, everyone, most_body), "127.0.0.1", 0)

    async def end() -> None:
        server.close()
        for connection in list(everyone):
            connection.stop()

    server = loop.run(start())
    try:
        yield server.sockets[0].getsockname()[1], everyone
    finally:
        loop.run(end())


def _for_a_while(
    loop: Loop, stack: AsyncExitStack, start: Callable[[], Awaitable[RunningServer]]
) -> Iterator[RunningServer]:
    try:
        yield loop.run(start())
    finally:
        loop.run(stack.aclose())


# ---- the client -------------------------------------------------------------------------------------------


@dataclass
class RawResponse:
    """An answer as it came."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    stream: bool = False  # chunks, of which only the first few were read

    @property
    def stays(self) -> bool:
        return not self.stream and self.headers.get("connection", "").lower() != "close"


class Broken(Exception):  # noqa: N818 - it is thrown at a test, not at a caller
    """What came is no HTTP, or half of it."""


class RawClient:
    """One connection. It believes nothing: what comes must be HTTP to the letter."""

    def __init__(self, port: int, patience: float = PATIENCE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=patience)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def send(self, data: bytes) -> bool:
        """Whether the server still took it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def reset_on_close(self) -> None:
        """``close`` tells the server that nothing more is read, instead of waiting for it."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def half_close(self) -> None:
        """Nothing more will come from this side."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, *, head_only: bool = False, whole: bool = False) -> RawResponse | None:
        """The next answer; None if the server hung up instead. ``whole``: of a stream, all until it ends."""
        while True:
            head = self._until(b"\r\n\r\n")
            if head is None:
                return None
            line, *fields = head[:-4].decode("latin-1").split("\r\n")
            version, _, rest = line.partition(" ")
            if version != "HTTP/1.1" or not rest[:3].isdecimal():
                raise Broken(f"no status line: {line!r}")
            headers = {}
            for text in fields:
                name, colon, value = text.partition(":")
                if not colon or not name or name != name.strip():
                    raise Broken(f"no header: {text!r}")
                headers[name.lower()] = value.strip()
            code = int(rest[:3])
            if code != 100:
                break
        if headers.get("transfer-encoding") == "chunked":
            return RawResponse(code, headers, self._chunks() if whole else b"", stream=True)
        if "content-length" not in headers:
            if headers.get("connection") != "close":
                raise Broken(f"no length and no end: {headers}")
            return RawResponse(code, headers, self.rest())
        length = int(headers["content-length"])
        return RawResponse(code, headers, b"" if head_only else self._exactly(length))

    def chunk(self) -> bytes | None:
        """The next chunk of a stream; None at its end."""
        size = self._until(b"\r\n")
        if size is None:
            raise Broken("a stream that breaks off")
        content = self._exactly(int(size, 16) + 2)
        if content[-2:] != b"\r\n":
            raise Broken(f"a chunk that is longer than it says: {content[-20:]!r}")
        return content[:-2] or None

    def rest(self) -> bytes:
        """Everything until the server hangs up."""
        found, self._rest = [self._rest], b""
        while piece := self._receive():
            found.append(piece)
        return b"".join(found)

    def unread(self, content: bytes) -> None:
        """Put bytes back, to be read again."""
        self._rest = content + self._rest

    def _chunks(self) -> bytes:
        found = []
        while (piece := self.chunk()) is not None:
            found.append(piece)
        return b"".join(found)

    def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._rest:
            piece = self._receive()
            if not piece:
                if self._rest:
                    raise Broken(f"half an answer: {self._rest[:200]!r}")
                return None
            self._rest += piece
        found, _, self._rest = self._rest.partition(mark)
        return found + mark

    def _exactly(self, length: int) -> bytes:
        pieces, have = [self._rest], len(self._rest)
        while have < length:
            piece = self._receive()
            if not piece:
                raise Broken(f"{have} of {length} bytes")
            pieces.append(piece)
            have += len(piece)
        whole = b"".join(pieces)
        self._rest = whole[length:]
        return whole[:length]

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 18)
        except TimeoutError:
            raise
        except OSError:  # it hung up while bytes of ours were on the way, or we did
            return b""
