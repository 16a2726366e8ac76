"""A session without aiohttp, for processes that rest most of the time and should be small, such as node agents.

It speaks as much of HTTP/1.1 as the API of Kubernetes needs: requests with a length, answers with a length or in
chunks, connections that are used again. Retries, limits and credentials are those of every session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from kubebase.local_socket import connect_local
from pumice.kube.client.api_errors import UnreachableError, error_from_response
from pumice.kube.client.credentials import Credential
from pumice.kube.client.keepalive import keep_alive
from pumice.kube.client.kubeconfig import UNIX_SCHEME
from pumice.kube.client.session import JSON, LOCAL, ApiSession, LineBuffer

IDLE_SECONDS = 15.0
"""How long an idle connection is used again: servers close them after a while, and a write sent then may be lost."""
READ_BYTES = 64 * 1024
LONGEST_HEAD = 64 * 1024
_BROKEN = (OSError, TimeoutError, EOFError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@dataclass(slots=True, eq=False)
class Connection:
    """A connection, and since when it is idle."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0


@dataclass(slots=True)
class Answer:
    """The head of an answer."""

    status: int
    reason: str
    headers: dict[str, str]


class LightSession(ApiSession):
    """Calls one cluster. Use it as ``async with LightSession(access) as session``."""

    _idle: list[Connection]

    async def __aenter__(self) -> Self:
        self._idle = []
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            self._idle.pop().writer.close()

    async def _once(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes, media: str, credential: Credential
    ) -> bytes:
        headers = {**credential.headers(), **({"Content-Type": media} if body else {})}
        try:
            async with (
                asyncio.timeout(self._limits.timeout),
                self._request(method, path, query, headers, body) as (connection, answer),
            ):
                content = b"".join([chunk async for chunk in _body(method, answer, connection.reader)])
                if answer.headers.get("connection", "").lower() != "close" and _is_delimited(answer):
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
        except TimeoutError:
            raise UnreachableError(f"{self.access.server}: no answer in time", sent=True) from None
        if answer.status >= 300:
            raise error_from_response(answer.status, answer.reason, content, answer.headers.get("retry-after", ""))
        return content

    async def lines(self, path: str, query: Mapping[str, str], *, silence: float) -> AsyncGenerator[list[bytes], None]:
        """The lines of an answer that goes on and on, as ``ApiSession.lines`` says."""
        for last in (False, True):
            credential = await self._credential()
            async with self._request("GET", path, query, credential.headers(), b"") as (connection, answer):
                chunks = _body("GET", answer, connection.reader, silence)
                if answer.status == 200:
                    yield []
                    arrived = LineBuffer()
                    async for chunk in chunks:
                        if lines := arrived.add(chunk):
                            yield lines
                    return
                content = b"".join([chunk async for chunk in chunks])
            refused = error_from_response(answer.status, answer.reason, content, answer.headers.get("retry-after", ""))
            if last or refused.code != 401 or not await self._renew(credential):
                raise refused

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[Connection, Answer]]:
        """Send a request and read the head of its answer. The connection is closed, unless it was put aside as idle."""
        connection = await self._connection()
        sent = False
        try:
            self._check(method)
            sent = True
            connection.writer.write(self._head(method, path, query, headers, body) + body)
            await connection.writer.drain()
            yield connection, await _read_head(connection.reader)
        except _BROKEN as error:
            raise UnreachableError(f"{self.access.server}: {str(error) or type(error).__name__}", sent=sent) from error
        finally:
            if connection not in self._idle:
                with suppress(OSError):
                    connection.writer.close()

    async def _connection(self) -> Connection:
        """A connection that was used before and is fresh enough, or a new one."""
        now = time.monotonic()
        while self._idle:
            found = self._idle.pop()
            if now - found.idle_since < IDLE_SECONDS and not found.reader.at_eof():
                return found
            found.writer.close()
        try:
            async with asyncio.timeout(self._limits.connect):
                reader, writer = await self._connect()
        except (OSError, TimeoutError) as error:
            if type(error).__name__ == "SSLCertVerificationError":  # by its name: ssl may not be loaded
                self._trust.renew()  # for the next attempt
            said = str(error) or "no connection in time"
            raise UnreachableError(f"{self.access.server}: {said}", sent=False) from error
        return Connection(reader, writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        server = self.access.endpoint
        if server.startswith(UNIX_SCHEME):
            return await connect_local(server.removeprefix(UNIX_SCHEME), LONGEST_HEAD)
        place, context = urlsplit(server), self._trust.context or None
        port = place.port or (443 if context else 80)
        name = (self.access.server_name or place.hostname) if context else None
        reader, writer = await asyncio.open_connection(
            place.hostname, port, ssl=context, server_hostname=name, limit=LONGEST_HEAD
        )
        keep_alive(writer.get_extra_info("socket"))
        return reader, writer

    def _head(
        self, method: str, path: str, query: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        place = urlsplit(LOCAL if self.access.endpoint.startswith(UNIX_SCHEME) else self.access.server)
        target = f"{place.path.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")
        fields = {
            "Host": place.netloc,
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": "pumice",
            **headers,
        }
        if body or method in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _read_head(reader: asyncio.StreamReader) -> Answer:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, status, *reason = head[0].split(" ", 2)
        pairs = (line.partition(":") for line in head[1:] if line)
        answer = Answer(int(status), "".join(reason), {name.strip().lower(): text.strip() for name, _, text in pairs})
        if answer.status >= 200:  # others come before the answer proper
            return answer


def _is_delimited(answer: Answer) -> bool:
    """Whether the end of the body is known before the connection ends."""
    return "content-length" in answer.headers or "chunked" in answer.headers.get("transfer-encoding", "").lower()


async def _body(
    method: str, answer: Answer, reader: asyncio.StreamReader, silence: float | None = None
) -> AsyncIterator[bytes]:
    """The body as it arrives; ``TimeoutError`` if nothing does for so long."""
    if method == "HEAD" or answer.status in (204, 304):
        return
    if "chunked" in answer.headers.get("transfer-encoding", "").lower():
        while True:
            async with asyncio.timeout(silence):
                size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
            left = size
            while left:
                async with asyncio.timeout(silence):
                    chunk = await reader.read(min(left, READ_BYTES))
                if not chunk:
                    raise EOFError("the answer broke off")
                left -= len(chunk)
                yield chunk
            async with asyncio.timeout(silence):
                ending = await reader.readuntil(b"\r\n")
                while not size and ending != b"\r\n":  # fields behind the last chunk
                    ending = await reader.readuntil(b"\r\n")
            if not size:
                return
    length = answer.headers.get("content-length")
    left = int(length) if length is not None else -1
    while left:
        async with asyncio.timeout(silence):
            chunk = await reader.read(READ_BYTES if left < 0 else min(left, READ_BYTES))
        if not chunk:
            if left > 0:
                raise EOFError("the answer broke off")
            return
        left -= len(chunk) if left > 0 else 0
        yield chunk
