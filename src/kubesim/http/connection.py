"""HTTP/1.1 on a socket: each request is answered before the next one is handled.

httptools (llhttp) parses. This module adds limits on requests, flow control, and the end of connections. A request is
handed over complete and a response is sent complete, except for watches: they are streams of chunks, which wait when
the client reads more slowly than changes arrive.

Why not a web framework: this process is small and its requests are many. A framework would take a quarter of the memory
and most of the time of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import parse_qsl

import httptools

from kubebase.local_socket import peer_user

MOST_HEADER_BYTES = 64 * 1024
ARRIVAL_SECONDS = 60.0  # a request must be complete so long after its first byte
IDLE_SECONDS = 600.0  # a connection may be idle for so long, or leave an answer unread
ONCE = frozenset({"host", "authorization", "content-length", "transfer-encoding"})
"""Headers that a request may have only once: programs disagree on which of two counts."""
HIGH_WATER = 256 * 1024  # bytes that wait for a client before a stream does
LARGE = 64 * 1024
WAITING = 8  # requests that a client may send ahead of their answers
LINGER_SECONDS = 0.5  # how long a rejected client may continue sending, lest a reset discards the response

log = logging.getLogger(__name__)

_NAMES = {
    name.encode(): name.lower()
    for name in ("Host", "Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent")
}
"""Names of headers that most requests have, as clients write them, in lower case."""
_REASONS = {code.value: code.phrase for code in HTTPStatus}


@dataclass(slots=True)
class Request:
    """What a client sent."""

    method: str = ""
    path: str = ""  # as sent, still percent-encoded
    raw_query: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    fault: int = 0  # the status code with which it is rejected unread
    modern: bool = True  # HTTP/1.1, so it knows chunks
    peer: int = -1  # over a Unix socket: the user of the process at the other end
    user: int | None = None  # who sent it, once the handler has found out

    def header(self, name: str) -> str:
        """A header by its name in lower case; empty if it is not there."""
        return self.headers.get(name, "")

    @property
    def query(self) -> dict[str, str]:
        """The parameters; of those given twice the first counts, as in Go."""
        found: dict[str, str] = {}
        for name, value in parse_qsl(self.raw_query, keep_blank_values=True):
            found.setdefault(name, value)
        return found


@dataclass(slots=True)
class Response:
    """A response: a body, or a stream of chunks."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Awaitable[Response]]
Admission = Callable[[Request], int]
"""Judges a request by its headers, before its body is kept: the status code of a refusal, or 0."""


class Connection(asyncio.Protocol):
    """One client. ``everyone`` is the set of those connected; each keeps itself in it."""

    def __init__(
        self,
        handler: Handler,
        everyone: set[Connection],
        most_body: int,
        admission: Admission = lambda request: 0,
        *,
        known_by_kernel: bool = True,
    ) -> None:
        self._handler = handler
        self._everyone = everyone
        self._most_body = most_body
        self._admission = admission
        self._known_by_kernel = known_by_kernel  # whether the user at the other end of a Unix socket counts
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._peer = -1
        self._waiting: deque[tuple[Request, bool]] = deque()  # complete requests; whether the client stays
        self._request = Request()
        self._url = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._heading = False  # in a request, before its body
        self._progress = False  # whether the bytes that came last made anything complete
        self._stuck = 0  # bytes since something was
        self._expected = False  # the client waits for a word before it sends the body
        self._deaf = False  # nothing more is read: what came last was no request, or was the last one
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        self._paused: asyncio.Future[None] | None = None
        self._closing = False
        self._arriving: float | None = None  # since when a request has been incomplete
        self._active = self._loop.time()  # when the client last sent or read something, or got an answer

    # ---- the socket ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        if self._known_by_kernel:
            self._peer = peer_user(transport.get_extra_info("socket"))
        self._everyone.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client disconnected. A pending write continues; a stream ends."""
        self._closing = True
        self._everyone.discard(self)
        self._waiting.clear()
        self.resume_writing()
        if self._streaming and self._task is not None:
            self._task.cancel()
        self._transport = None

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._paused = self._loop.create_future()

    def resume_writing(self) -> None:
        """The client has caught up, or has gone."""
        self._active = self._loop.time()
        if self._paused is not None and not self._paused.done():
            self._paused.set_result(None)
        self._paused = None

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self._closing or self._deaf:
            return
        self._active = self._loop.time()
        self._progress = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # nothing is spoken here but HTTP: it is answered like any other
            self._stay_with_http()
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        self._stuck = 0 if self._progress else self._stuck + len(data)
        if self._stuck > MOST_HEADER_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def eof_received(self) -> bool:
        """The client sent EOF. It still gets its responses, but streams end."""
        self._deaf = True
        self._last()
        half_open = self._transport is not None and self._transport.get_extra_info("sslcontext") is None
        return half_open and self._task is not None and not self._streaming

    # ---- the parser ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._request = Request()
        self._url.clear()
        self._parts = []
        self._size = 0
        self._heading = True
        self._arriving = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._url += url
        self._count_head(len(url), HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is ignored."""
        self._progress = True
        if self._heading:
            key = _NAMES.get(name) or name.decode("latin-1").lower()
            if key in ONCE and key in self._request.headers:
                self._refuse(HTTPStatus.BAD_REQUEST)
            self._request.headers[key] = value.decode("latin-1")
            self._count_head(len(name) + len(value), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """All headers are there; the body may follow."""
        self._progress = True
        self._heading = False
        self._size = 0
        version = self._parser.get_http_version()
        self._request.modern = version == "1.1"
        if version not in {"1.0", "1.1"}:
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif self._announces_body() and (fault := self._admission(self._identified())):
            self._refuse(HTTPStatus(fault))
        elif self._request.modern and self._request.header("expect").lower() == "100-continue":
            length = self._request.header("content-length")
            if length.isdecimal() and (len(length) > 19 or int(length) > self._most_body):
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            else:
                self._expected = True
                self._send_continue()

    def on_body(self, body: bytes) -> None:
        """A piece of the body. A body that is too large is discarded but read to its end: the client gets the error."""
        self._progress = True
        self._size += len(body)
        if self._size > self._most_body:
            self._request.fault = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value
            self._parts = []
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """A request is there."""
        self._progress = True
        if self._deaf:
            return
        self._arriving = None
        request = self._identified()
        request.body = b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]
        self._expected = False
        self._enqueue_request(request, stays=request.modern and self._parser.should_keep_alive())

    def _announces_body(self) -> bool:
        headers = self._request.headers
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    def _identified(self) -> Request:
        """The request with its method and address, which the parser knows once the headers are complete."""
        request = self._request
        request.method = self._parser.get_method().decode("latin-1")
        path, _, request.raw_query = self._url.decode("latin-1").partition("?")
        request.path = path.partition("#")[0]
        request.peer = self._peer
        return request

    def _enqueue_request(self, request: Request, *, stays: bool) -> None:
        """Answer a request when those before it are."""
        self._waiting.append((request, stays))
        if self._task is None:
            self._task = self._loop.create_task(self._answer_all())
        elif len(self._waiting) >= WAITING and self._transport is not None:
            self._transport.pause_reading()

    def _last(self) -> None:
        """After what waits for an answer the connection ends."""
        if self._waiting:
            self._waiting[-1] = (self._waiting[-1][0], False)

    def _stay_with_http(self) -> None:
        """Answer a protocol upgrade in HTTP/1.1. Its body is not read, so it must have none."""
        self._deaf = True
        self._last()
        request = self._waiting[-1][0]
        if request.header("content-length") not in {"", "0"} or request.header("transfer-encoding"):
            request.fault = HTTPStatus.BAD_REQUEST.value

    def _count_head(self, more: int, fault: HTTPStatus) -> None:
        self._size += more
        if self._size > MOST_HEADER_BYTES:
            self._refuse(fault)

    def _refuse(self, fault: HTTPStatus) -> None:
        """Answer something that is no request, when those before it are answered, and hang up."""
        if not self._deaf:
            self._deaf = True
            self._enqueue_request(Request(fault=fault.value), stays=False)

    def _send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it, unless a response is being sent."""
        if self._expected and self._task is None and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expected = False

    # ---- answers ------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                request, stays = self._waiting.popleft()
                answer = await self._handler(request)
                if self._transport is None or self._transport.is_closing():  # the client has gone
                    if answer.stream is not None:
                        await _close(answer.stream)
                    return
                if answer.stream is not None and self._closing:
                    await _close(answer.stream)
                elif answer.stream is not None:
                    await self._send_stream(answer, request, stays=stays)
                else:
                    self._send(answer, head_only=request.method == "HEAD", stays=stays and not self._closing)
                self._active = self._loop.time()
                if self._paused is not None and not self._closing:
                    await self._paused  # the next answer waits until the client has read this one
                if self._closing or (self._deaf and not self._waiting):
                    self._linger()
                    return
                if not stays:
                    self._end()
                    return
                if self._transport is not None:
                    self._transport.resume_reading()
                if self._waiting:
                    await asyncio.sleep(0)  # others have a turn between the requests of an impatient client
        except Exception:  # the handler answers for its own; a stream that breaks can only be cut off
            log.exception("a connection ends early")
            self._end()
        finally:
            self._task = None
            self._send_continue()

    def _send(self, answer: Response, *, head_only: bool, stays: bool) -> None:
        assert self._transport is not None  # checked by the caller
        head = _head(answer, stays=stays) + b"Content-Length: %d\r\n\r\n" % len(answer.body)
        if head_only:
            self._transport.write(head)
        elif len(answer.body) < LARGE:
            self._transport.write(head + answer.body)
        else:  # one more trip to the kernel is cheaper than one more copy
            self._transport.write(head)
            self._transport.write(answer.body)

    async def _send_stream(self, answer: Response, request: Request, *, stays: bool) -> None:
        """Write chunks as they arrive, each after the client has read most of the previous ones."""
        assert self._transport is not None and answer.stream is not None  # checked by the caller
        framing = b"Transfer-Encoding: chunked\r\n\r\n" if request.modern else b"\r\n"
        self._transport.write(_head(answer, stays=stays) + framing)
        self._streaming = True
        try:
            async for chunk in answer.stream:
                if self._transport is None:
                    return
                if chunk:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if request.modern else chunk)
                if self._paused is not None:
                    await self._paused
        except asyncio.CancelledError:  # by us: the client has gone, or the server stops
            if not self._closing:
                raise
        finally:
            self._streaming = False
            await _close(answer.stream)
        if request.modern and self._transport is not None:
            self._transport.write(b"0\r\n\r\n")

    def _linger(self) -> None:
        """Close the connection. First read from a client that still sends, lest a reset discards the response."""
        if self._closing or self._transport is None or not self._transport.can_write_eof():
            self._end()
        else:
            with contextlib.suppress(OSError):  # it has hung up itself
                self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS, self._end)

    def _end(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def stop(self) -> None:
        """Finish: a stream ends now, a request is still answered, a client that is idle is sent away."""
        self._closing = True
        if self._task is None:
            self._end()
        elif self._streaming:
            self._task.cancel()

    def is_overdue(self, now: float) -> bool:
        """Whether the client has taken too long: to send a request, to read an answer, or to ask again."""
        if self._arriving is not None and now - self._arriving > ARRIVAL_SECONDS:
            return True
        waits_for_client = self._task is None or self._paused is not None
        return waits_for_client and now - self._active > IDLE_SECONDS

    def abort(self) -> None:
        """Drop the client and all that waits for it."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._task is not None


async def _close(stream: AsyncIterator[bytes]) -> None:
    closer = getattr(stream, "aclose", None)
    if closer is not None:
        with contextlib.suppress(RuntimeError):  # it is running: the cancellation ends it
            await closer()


_heads: dict[tuple[int, str, bool], bytes] = {}


def _head(answer: Response, *, stays: bool) -> bytes:
    """Status line and headers; constant ones are built once."""
    kind = (answer.status, answer.content_type, stays)
    head = _heads.get(kind)
    if head is None:
        reason = _REASONS.get(answer.status, "")
        lines = [
            f"HTTP/1.1 {answer.status} {reason}",
            f"Content-Type: {answer.content_type}",
            "Cache-Control: no-cache, private",
            "X-Content-Type-Options: nosniff",
        ]
        if not stays:
            lines.append("Connection: close")
        head = _heads[kind] = "\r\n".join([*lines, ""]).encode("latin-1")
    more = [f"{name}: {value}\r\n" for name, value in answer.headers.items()]
    more += [f"Warning: {warning}\r\n" for warning in answer.warnings]
    more.append(f"Date: {_second(int(time.time()))}\r\n")
    return head + "".join(more).encode("latin-1", "replace")


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """A time in HTTP format (RFC 9110), independent of the locale."""
    at = time.gmtime(seconds)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year}"
    return f"{day} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
