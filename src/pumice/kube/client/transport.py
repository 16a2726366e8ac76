"""HTTP to one cluster: persistent connections, a limit on requests in flight, and retries.

A request is retried only if that is safe: a GET always; a write only if the server certainly did not execute it,
because no connection could be made, or because the API asked to retry later (429 with Retry-After). All other errors of
writes go to the caller; ``UnreachableError.sent`` says whether the server may have executed the write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from pumice.kube.client.api_errors import ApiError, CredentialError, UnreachableError, error_from_response
from pumice.kube.client.credentials import Credential
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.tls import Trust

JSON = "application/json"
UNIX_SCHEME, LOCAL = "unix://", "http://localhost"
BUSY = frozenset({429, 500, 502, 503, 504})  # a GET is tried again after these
READ_AHEAD = 512 * 1024  # bytes of a watch that may wait to be looked at
# A peer that vanished without a word is noticed after about a minute: idle, then so many probes so far apart.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a session: requests in flight, timeouts and retries."""

    in_flight: int = 64
    """Maximum number of writes in flight, in the order of the calls, and of reads beside them: reads do not wait for
    writes. Watches do not count."""
    urgent: int = 16
    """Maximum number of urgent writes in flight, which do not wait for the others."""
    timeout: float = 30.0
    """Timeout of one attempt, in seconds."""
    connect: float = 10.0
    attempts: int = 5
    first_pause: float = 0.1
    longest_pause: float = 5.0
    longest_wait: float = 60.0
    """The longest Retry-After, in seconds, that a call waits for; beyond that it fails."""


class Session:
    """Calls one cluster. Use it as ``async with Session(access) as session``."""

    def __init__(
        self,
        access: Access,
        limits: Limits | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.access = access
        self.may_write = may_write
        """Checked before every write is sent: a replica that is not the leader writes nothing."""
        self._limits = limits = limits or Limits()
        self._reading, self._writing = (asyncio.Semaphore(limits.in_flight) for _ in range(2))
        self._urgent = asyncio.Semaphore(limits.urgent)
        self._credentials = access.credential_source(now)
        self._obtaining = asyncio.Lock()  # however many calls wait for a credential, one thread is enough
        self._credential_trouble = ""
        self._trust = Trust(access)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Session:
        limits = self._limits
        connector: aiohttp.BaseConnector
        if self.access.server.startswith(UNIX_SCHEME):
            connector = aiohttp.UnixConnector(self.access.server.removeprefix(UNIX_SCHEME), limit=0)
        else:
            connector = _Connector(
                self._check,
                limit=0,  # calls are counted here; a watch must not keep them out
                socket_factory=_socket,
            )
        self._http = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=limits.timeout, sock_connect=limits.connect),
            # Packing costs the server more time than it saves on the wire of one data centre.
            headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "pumice"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_AHEAD,
            middlewares=(self._send_once,),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._http is not None
        await self._http.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        media: str = JSON,
        patient: bool = True,
        urgent: bool = False,
    ) -> bytes:
        """The body of the response. ``patient``: retry a 429 that has a Retry-After."""
        backoff = Backoff(self._limits.first_pause, self._limits.longest_pause)
        reads = method == "GET"
        turn = self._reading if reads else self._urgent if urgent else self._writing
        for left in reversed(range(self._limits.attempts)):
            pause = 0.0
            credential = Credential()
            try:
                async with turn:
                    credential = await self._credential()
                    return await self._once(method, path, query, body, media, credential)
            except ApiError as error:
                asked = error.retry_after or 0.0
                later = error.code == 429 and error.retry_after is not None and patient
                fresh = error.code == 401 and await self._renew(credential)
                if not left or not (later or fresh or (reads and error.code in BUSY)):
                    raise
                if asked > self._limits.longest_wait:
                    raise
                pause = 0.0 if fresh else backoff.next(least=asked)
            except CredentialError:
                raise  # another attempt would fail as this one did
            except UnreachableError as error:
                if not left or not (reads or not error.sent):
                    raise
                pause = backoff.next()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _once(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes, media: str, credential: Credential
    ) -> bytes:
        self._check(method)
        headers = credential.headers()
        if body:
            headers["Content-Type"] = media
        with self._troubles():
            async with self._opened.request(
                method,
                self._url(path, query),
                data=body or None,
                headers=headers,
                allow_redirects=False,  # our token is for nobody else
                ssl=self._trust.context,
                server_hostname=self.access.server_name or None,
            ) as answer:
                content = await answer.read()
        if answer.status >= 300:
            raise error_from_response(
                answer.status, answer.reason or "", content, answer.headers.get("Retry-After", "")
            )
        return content

    async def lines(self, path: str, query: Mapping[str, str], *, silence: float) -> AsyncGenerator[list[bytes], None]:
        """The lines of an answer that goes on and on, as many at a time as have come; first none: it has begun.

        It ends when the server ends it. When nothing has come for ``silence`` seconds it counts as lost. A line that
        was cut off is not given.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect, sock_read=silence)
        for last in (False, True):
            credential = await self._credential()
            with self._troubles():
                async with self._opened.request(
                    "GET",
                    self._url(path, query),
                    headers=credential.headers(),
                    timeout=timeout,
                    allow_redirects=False,
                    ssl=self._trust.context,
                    server_hostname=self.access.server_name or None,
                ) as answer:
                    if answer.status == 200:
                        yield []
                        arrived = _LineBuffer()
                        async for chunk in answer.content.iter_any():
                            if lines := arrived.add(chunk):
                                yield lines
                        return
                    content = await answer.read()
            refused = error_from_response(
                answer.status, answer.reason or "", content, answer.headers.get("Retry-After", "")
            )
            if last or refused.code != 401 or not await self._renew(credential):
                raise refused

    async def _credential(self) -> Credential:
        """The credential for the next request. A command that supplies one runs in a thread: the loop goes on."""
        found = self._credentials.cached()
        if found is None:
            async with self._obtaining:
                try:
                    found = await asyncio.to_thread(self._credentials.obtain)
                except CredentialError as error:
                    if str(error) != self._credential_trouble:  # once, however many calls fail because of it
                        log.warning('Failed to get credentials: error="%s"', error)
                    self._credential_trouble = str(error)
                    raise
            self._credential_trouble = ""
        self._trust.present(found)
        return found

    async def _renew(self, refused: Credential) -> bool:
        """After a 401: whether there is another credential to try."""
        async with self._obtaining:
            return await asyncio.to_thread(self._credentials.renew, refused)

    async def _send_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keep aiohttp from sending a PUT or DELETE a second time by itself, which it does after errors of its own."""
        with self._troubles():
            return await send(request)

    def _check(self, method: str) -> None:
        """Refuse to send a write that is not for this replica to make."""
        if method != "GET" and not self.may_write():
            raise UnreachableError("not sent: this replica is not the leader", sent=False)

    @property
    def _opened(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("the session is not open; use: async with Session(access) as session")
        return self._http

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        server = LOCAL if self.access.server.startswith(UNIX_SCHEME) else self.access.server
        return URL(f"{server}{path}{asked}", encoded=True)

    @contextlib.contextmanager
    def _troubles(self) -> Iterator[None]:
        """Convert errors of a connection to ``UnreachableError``."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            said = str(error) or type(error).__name__
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                self._trust.renew()  # for the next attempt
            raise UnreachableError(f"{self.access.server}: {said}", sent=not unsent) from error


class _LineBuffer:
    """Assembles lines from chunks of bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest += chunk
            return []
        lines = (bytes(self._rest) + chunk[:end]).split(b"\n")
        self._rest = bytearray(chunk[end + 1 :])
        return lines


class _Connector(aiohttp.TCPConnector):
    """Looks once more whether a request may be sent when the connection is there: to make one takes its time."""

    def __init__(self, check: Callable[[str], None], **options: Any) -> None:
        super().__init__(**options)
        self._check = check

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """The connection that a request goes out by."""
        connection = await super().connect(req, traces, timeout)
        try:
            self._check(req.method)
        except UnreachableError:
            connection.close()
            raise
        return connection


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with TCP keepalive, so that a dead peer is noticed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
