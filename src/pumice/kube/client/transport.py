"""The HTTP of a session: connections that are used again, and one request at a time on each.

It speaks as much of HTTP/1.1 as the API of Kubernetes needs. General clients take twice the CPU time for a small call,
and 11 MiB. Retries, limits and credentials are those of ``ApiSession``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cached_property
from socket import AF_INET, AF_INET6, SOCK_STREAM, inet_pton
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from kubebase.local_socket import check_listener
from pumice.kube.client.api_errors import ApiError, CredentialError, UnreachableError, error_from_response
from pumice.kube.client.connection import Answer, Connection
from pumice.kube.client.credentials import Credential
from pumice.kube.client.keepalive import keep_alive
from pumice.kube.client.kubeconfig import UNIX_SCHEME
from pumice.kube.client.session import JSON, LOCAL, ApiSession, Limits, LineBuffer

__all__ = ["Limits", "Session"]

IDLE_SECONDS = 15.0
"""How long an idle connection is used again: servers close them after a while, and a write sent then may be lost."""
_BROKEN = (OSError, TimeoutError, EOFError, ValueError)


class Session(ApiSession):
    """Calls one cluster. Use it as ``async with Session(access) as session``."""

    _idle: deque[Connection] | None = None
    _latest_head: tuple[Credential, str] | None = None

    async def __aenter__(self) -> Self:
        self._idle, self._connections = deque(), set[Connection]()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:  # also those of watches that nobody reads any more
            connection.close()
        self._connections.clear()
        self._opened.clear()
        await asyncio.sleep(0)  # the event loop closes them

    async def _once(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes, media: str, credential: Credential
    ) -> bytes:
        request = self._request(method, path, query, credential, body, media)
        connection = await self._connection(method)
        try:
            answer = await connection.ask(request, self._limits.timeout)
        except _BROKEN as error:
            raise self._lost(error) from error
        finally:
            self._put_aside(connection)
        if answer.status >= 300:
            raise _refusal(answer)
        return answer.body

    async def lines(self, path: str, query: Mapping[str, str], *, silence: float) -> AsyncGenerator[list[bytes], None]:
        """The lines of an answer that goes on and on, as ``ApiSession.lines`` says."""
        for last in (False, True):
            credential = await self._credential()
            async with self._stream() as connection:
                answer = await connection.begin(self._request("GET", path, query, credential), silence)
                async with aclosing(connection.pieces(silence)) as pieces:
                    if answer.status == 200:
                        yield []
                        arrived = LineBuffer()
                        async for piece in pieces:
                            if lines := arrived.add(piece):
                                yield lines
                        return
                    answer.body = b"".join([piece async for piece in pieces])
            refused = _refusal(answer)
            if last or refused.code != 401 or not await self._renew(credential):
                raise refused

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[Connection]:
        """A connection for a request whose answer goes on and on."""
        connection = await self._connection("GET")
        try:
            yield connection
        except _BROKEN as error:
            raise self._lost(error) from error
        finally:
            self._put_aside(connection)

    def _lost(self, error: Exception) -> UnreachableError:
        """The error of a call that was sent and got no answer."""
        return UnreachableError(f"{self.access.server}: {str(error) or type(error).__name__}", sent=True)

    def _put_aside(self, connection: Connection) -> None:
        """Keep a connection for the next request if its answer came whole, else close it."""
        idle, now = self._opened, time.monotonic()
        while idle and (now - idle[0].idle_since > IDLE_SECONDS or not idle[0].is_usable):
            self._drop(idle.popleft())
        if connection.is_usable:
            connection.idle_since = now
            idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._connections.discard(connection)

    @property
    def _opened(self) -> deque[Connection]:
        if self._idle is None:
            raise RuntimeError("the session is not open; use: async with Session(access) as session")
        return self._idle

    async def _connection(self, method: str) -> Connection:
        """A connection on which a request can be sent: one that was used before and is fresh enough, or a new one."""
        idle, now = self._opened, time.monotonic()
        while idle:
            found = idle.pop()
            if now - found.idle_since < IDLE_SECONDS and found.is_usable:
                break
            self._drop(found)
        else:
            found = await self._new_connection()
        try:
            self._check(method)  # not before: to make a connection takes its time
        except UnreachableError:
            self._put_aside(found)
            raise
        return found

    async def _new_connection(self) -> Connection:
        try:
            async with asyncio.timeout(min(self._limits.connect, self._limits.timeout)):
                made = await self._connect()
        except (OSError, TimeoutError) as error:
            if type(error).__name__ == "SSLCertVerificationError":  # by its name: ssl may not be loaded
                self._trust.renew()  # for the next attempt
            said = str(error) or "no connection in time"
            raise UnreachableError(f"{self.access.server}: {said}", sent=False) from error
        if not made.is_usable:  # a server that has enough clients hangs up at once
            made.close()
            raise UnreachableError(f"{self.access.server}: the server hung up", sent=False)
        self._connections.add(made)
        return made

    async def _connect(self) -> Connection:
        loop, server = asyncio.get_running_loop(), self.access.endpoint
        if server.startswith(UNIX_SCHEME):
            local, connection = await loop.create_unix_connection(Connection, server.removeprefix(UNIX_SCHEME))
            try:
                check_listener(local.get_extra_info("socket"))
            except PermissionError:
                local.abort()
                raise
            return connection
        place = urlsplit(server)
        port = place.port or (443 if self._trust.context else 80)
        addresses = [place.hostname or ""]
        if not _is_address(addresses[0]):  # names take a thread, and all threads may be busy
            found = await loop.getaddrinfo(place.hostname, port, type=SOCK_STREAM)
            addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        for left in reversed(range(len(addresses))):  # each gets its part of the time: the first may not answer at all
            try:
                async with asyncio.timeout(self._limits.connect / len(addresses)):
                    return await self._connect_to(addresses[-1 - left], port, place.hostname or "")
            except (ConnectionError, TimeoutError):
                if not left:
                    raise
        raise OSError(f"{place.hostname} has no address")

    async def _connect_to(self, address: str, port: int, name: str) -> Connection:
        context = self._trust.context or None
        shown = (self.access.server_name or name) if context else None
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            Connection, address, port, ssl=context, server_hostname=shown
        )
        keep_alive(transport.get_extra_info("socket"))
        return connection

    @cached_property
    def _same_for_all(self) -> tuple[str, str]:
        """What all requests have in common: the beginning of the path, and fields of the head."""
        server = urlsplit(LOCAL if self.access.endpoint.startswith(UNIX_SCHEME) else self.access.server)
        # Packing costs the server more time than it saves on the wire of one data centre.
        fields = {"Host": server.netloc, "Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "pumice"}
        return server.path.rstrip("/"), "".join(f"{name}: {value}\r\n" for name, value in fields.items())

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        credential: Credential,
        body: bytes = b"",
        media: str = "",
    ) -> bytes:
        prefix = self._same_for_all[0]
        target = f"{prefix}{path}?{urlencode(query)}" if query else f"{prefix}{path}"
        if not target.isprintable() or " " in target:
            raise ValueError(f"{target!r} is not a path; must have no spaces and no control characters")
        fields = self._head(credential)
        if body:
            fields += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
        elif method != "GET":
            fields += "Content-Length: 0\r\n"
        return f"{method} {target} HTTP/1.1\r\n{fields}\r\n".encode("latin-1") + body

    def _head(self, credential: Credential) -> str:
        """The fields that all requests with a credential have."""
        known = self._latest_head
        if known is not None and known[0] is credential:
            return known[1]
        own = credential.headers()
        # A line break would begin a field of its own.
        if not all(value.isascii() and value.isprintable() for value in own.values()):
            raise CredentialError(f"{self.access.server}: the token has characters that no HTTP header may have")
        head = self._same_for_all[1] + "".join(f"{name}: {value}\r\n" for name, value in own.items())
        self._latest_head = credential, head
        return head


def _is_address(host: str) -> bool:
    for family in (AF_INET, AF_INET6):
        with suppress(OSError):
            return bool(inet_pton(family, host))
    return False


def _refusal(answer: Answer) -> ApiError:
    return error_from_response(answer.status, answer.reason, answer.body, answer.headers.get("retry-after", ""))
