"""The session of processes that make many requests: HTTP by aiohttp."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from pumice.kube.client.api_errors import UnreachableError, error_from_response
from pumice.kube.client.credentials import Credential
from pumice.kube.client.keepalive import keep_alive
from pumice.kube.client.kubeconfig import UNIX_SCHEME
from pumice.kube.client.session import JSON, LOCAL, ApiSession, Limits, LineBuffer

__all__ = ["Limits", "Session"]

READ_AHEAD = 512 * 1024  # bytes of a watch that may wait to be looked at


class Session(ApiSession):
    """Calls one cluster. Use it as ``async with Session(access) as session``."""

    _http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        limits = self._limits
        connector: aiohttp.BaseConnector
        if self.access.endpoint.startswith(UNIX_SCHEME):
            connector = aiohttp.UnixConnector(self.access.endpoint.removeprefix(UNIX_SCHEME), limit=0)
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
        """The lines of an answer that goes on and on, read by aiohttp."""
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
                        arrived = LineBuffer()
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

    async def _send_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keep aiohttp from sending a PUT or DELETE a second time by itself, which it does after errors of its own."""
        with self._troubles():
            return await send(request)

    @property
    def _opened(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("the session is not open; use: async with Session(access) as session")
        return self._http

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        server = LOCAL if self.access.endpoint.startswith(UNIX_SCHEME) else self.access.server
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
    keep_alive(made)
    return made
