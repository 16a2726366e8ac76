"""The long-running parts of the server: listening sockets, controllers, and periodic compaction."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kubesim.api.access import AccessPolicy
from kubesim.api.client import InProcessClient
from kubesim.http import content_negotiation
from kubesim.http.connection import Connection
from kubesim.http.handler import RequestHandler
from kubesim.storage import StorageFailed

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

COMPACT_SECONDS = 300.0  # history is kept for one to two of these intervals, as on a real cluster
SHUTDOWN_SECONDS = 2.0
BACKLOG = 1024
MOST_CONNECTIONS = 10_000
SPARE_FILES = 64  # file descriptors that are not for connections: the database, logs, and other sockets
SWEEP_SECONDS = 5.0  # how often clients are checked that take too long


@contextlib.contextmanager
def bind_sockets(host: str = "127.0.0.1", port: int = 0) -> Iterator[list[socket.socket]]:
    """Bind a port (0: any free one) at all addresses of a host. Connections queue until the server listens."""
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        absent: OSError | None = None
        name = host.encode() if host.isascii() else host  # a str would load the IDNA codec
        for family in dict.fromkeys(found[0] for found in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)):
            try:
                one = stack.enter_context(socket.create_server((host, port), family=family, backlog=BACKLOG))
            except OSError as error:
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                absent = error  # localhost has two addresses, but not every machine supports both
                continue
            sockets.append(one)
            port = one.getsockname()[1]
        if not sockets and absent:
            raise absent
        yield sockets


@contextlib.asynccontextmanager
async def serve_http(
    api: InProcessClient,
    sockets: Sequence[socket.socket],
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    access: AccessPolicy | None = None,
    unix_socket: socket.socket | None = None,
    local_socket: socket.socket | None = None,
) -> AsyncIterator[int]:
    """Serve HTTP on the sockets, and without TLS on the Unix sockets that there are; yields the port.

    On ``unix_socket`` the kernel says who a client is; on ``local_socket`` clients send a token, as on a port.
    """
    http = RequestHandler(api, token=token, access=access)
    everyone: set[Connection] = set()
    loop = asyncio.get_running_loop()
    port: int = sockets[0].getsockname()[1]

    most = most_connections()

    def connection(*, known_by_kernel: bool = True) -> asyncio.Protocol:
        if len(everyone) >= most:
            return _TurnedAway(most)
        largest = content_negotiation.LARGEST_BODY
        return Connection(http.handle, everyone, largest, http.judge_headers, known_by_kernel=known_by_kernel)

    servers = [await loop.create_server(connection, sock=one, ssl=tls, backlog=BACKLOG) for one in sockets]
    if unix_socket is not None:
        servers.append(await loop.create_unix_server(connection, sock=unix_socket, backlog=BACKLOG))
    if local_socket is not None:
        local = functools.partial(connection, known_by_kernel=False)
        servers.append(await loop.create_unix_server(local, sock=local_socket, backlog=BACKLOG))
    sweeper = asyncio.create_task(_drop_overdue(everyone))
    try:
        yield port
    finally:
        for server in servers:
            server.close()
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)
        await _close_connections(everyone)


def most_connections() -> int:
    """How many clients may be connected at once.

    Fewer than this process may open files: otherwise accepting the next client fails, again and again, and asyncio
    logs each failure.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, files - SPARE_FILES))


class _TurnedAway(asyncio.Protocol):
    """A client too many: it is disconnected at once."""

    _reported = 0.0

    def __init__(self, most: int) -> None:
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection; say so in the log once a minute at most."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
        now = asyncio.get_running_loop().time()
        if now - _TurnedAway._reported > 60:
            _TurnedAway._reported = now
            log.warning("more than %d connections: new clients are turned away", self._most)


async def _drop_overdue(everyone: set[Connection]) -> None:
    """Periodically drop clients that take too long to send a request or to read an answer."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = loop.time()
        for connection in [each for each in everyone if each.is_overdue(now)]:
            connection.abort()


async def _close_connections(everyone: set[Connection]) -> None:
    """Close all connections: let pending requests finish, for a limited time."""
    for connection in list(everyone):
        connection.stop()
    end = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
    while any(connection.busy for connection in everyone) and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def run_controllers(*work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Future[None]]:
    """Run controllers. The future completes if one of them ends, which is an error."""
    tasks = [asyncio.create_task(each) for each in work]
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(task: asyncio.Task[None]) -> None:
        if task.cancelled() or ended.done():
            return
        error = task.exception()
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    for task in tasks:
        task.add_done_callback(note)
    try:
        yield ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if ended.done():
            ended.exception()  # retrieved, so that asyncio does not warn
        else:
            ended.cancel()


async def compact_periodically(api: InProcessClient, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Compact the history periodically, but never beyond the position of a follower in this process."""
    before = api.store.revision
    while True:
        await pause(COMPACT_SECONDS)
        try:
            await api.store.compact(api.oldest_needed_revision(before))
        except StorageFailed as error:
            log.warning("history is kept for now: %s", error)
        before = api.store.revision
