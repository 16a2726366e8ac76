"""One connection to an API server: a request at a time, and its answer, whole or piece by piece.

httptools (llhttp) parses, as it does for the embedded API server. A connection serves the next request only if the
answer before it came whole and the server keeps the connection open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from math import inf

import httptools

READ_AHEAD = 512 * 1024
"""Bytes of a stream that may wait to be looked at; then the server has to wait."""
MOST_HEAD_BYTES = 64 * 1024
"""Bytes until the head of an answer is there, those of 1xx answers before it included; no API server needs so many."""


@dataclass(slots=True)
class Answer:
    """The head of an answer, and its body as far as it has come."""

    status: int = 0
    reason: str = ""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    """The fields of the head as they came. Of most answers nobody looks at them."""
    body: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        """The fields of the head, by their names in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.fields}


_NO_ANSWER = Answer()


class Connection(asyncio.Protocol):
    """A connection to an API server, as asyncio's protocol."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._parts: list[bytes] = []
        self._size = 0
        self._asked = False  # a request is under way
        self._streams = False  # its answer is read piece by piece
        self._headed = False  # the head of the answer is there
        self._whole = False  # all of the answer is there
        self._stays = False  # the server keeps the connection open after it
        self._paused = False
        self._head_bytes = 0
        self._trouble: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = inf  # of the answer that is waited for
        self._alarm: asyncio.TimerHandle | None = None  # one for many requests: nearly all are answered in time

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._trouble is None
            and (not self._asked or (self._whole and self._stays))
        )

    def close(self) -> None:
        """Close it at once: nothing is left to send, and what is under way gets no answer."""
        if self._transport is not None:
            self._transport.abort()  # to say goodbye over TLS would take a while

    # ---- requests --------------------------------------------------------------------------------------------

    async def ask(self, request: bytes, seconds: float) -> Answer:
        """Send a request, and wait for the whole answer, but not longer than that."""
        self._send(request, streams=False)
        self._deadline = self._loop.time() + seconds
        if self._alarm is None or self._alarm.when() > self._deadline:
            self._set_alarm()
        try:
            while not self._whole:
                await self._arrival()
        finally:
            self._deadline = inf
        return self._collected()

    async def begin(self, request: bytes, silence: float) -> Answer:
        """Send a request, and wait for the head of its answer, but not longer than that. ``pieces`` has the body."""
        self._send(request, streams=True)
        async with asyncio.timeout(silence):
            while not self._headed:
                await self._arrival()
        return self._answer

    async def pieces(self, silence: float) -> AsyncGenerator[bytes, None]:
        """The body as it arrives; ``TimeoutError`` if nothing does for so long."""
        while True:
            if self._parts:
                piece = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self._size = 0
                self._read_on()
                yield piece
            elif self._whole:
                return
            else:
                async with asyncio.timeout(silence):
                    await self._arrival()

    def _send(self, request: bytes, *, streams: bool) -> None:
        assert self.is_usable and self._transport is not None
        self._answer = Answer()
        self._parts.clear()
        self._size = self._head_bytes = 0
        self._asked, self._streams, self._headed, self._whole = True, streams, False, False
        self._read_on()
        self._transport.write(request)

    async def _arrival(self) -> None:
        """Wait until something has come that is waited for; raises what broke the connection."""
        if self._trouble is not None:
            raise self._trouble
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _collected(self) -> Answer:
        answer, parts = self._answer, self._parts
        answer.body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._answer = _NO_ANSWER  # a connection that waits for the next request must not keep a long list in memory
        return answer

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        """The alarm of this request, or of an earlier one that was answered."""
        self._alarm = None
        if self._loop.time() >= self._deadline:
            self._fail(TimeoutError("no answer in time"))
        elif self._deadline < inf:
            self._set_alarm()

    def _read_on(self) -> None:
        """Read again, if nothing was to be read for a while."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ---- the socket ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if not self._asked or self._whole:  # nobody asked for them
            self._fail(ValueError("the server sent more than the answer"))
            return
        if not self._headed:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ValueError("the server changed the protocol"))
        except httptools.HttpParserError as error:
            self._fail(ValueError(f"the answer is not HTTP: {error}"))
        if not self._headed and self._head_bytes > MOST_HEAD_BYTES:
            self._fail(ValueError("the head of the answer is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended, and with it an answer whose end is not announced otherwise."""
        if self._headed and not self._whole and exc is None and not self._is_delimited():
            self._whole = True
        elif self._trouble is None:
            self._trouble = exc or EOFError("the answer broke off" if self._headed else "the server hung up")
        self._transport = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._trouble = self._trouble or error
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _is_delimited(self) -> bool:
        """Whether the end of the body is known before the connection ends."""
        headers = self._answer.headers
        return "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()

    # ---- the parser ------------------------------------------------------------------------------------------
    # It may find the beginning of another answer behind the whole one. Nobody asked for that: nothing of it may get
    # into the answer, and the connection is not used again.

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self._whole:
            self._fail(ValueError("the server sent more than the answer"))

    def on_status(self, reason: bytes) -> None:
        """The words behind the status code."""
        if not self._headed:
            self._answer.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or one behind the body, which is ignored."""
        if not self._headed:
            self._answer.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there; the body may follow."""
        status = self._parser.get_status_code()
        if status < 200 or self._whole:  # comes before the answer proper, or behind it
            return
        self._answer.status = status
        self._headed = True
        if self._streams:
            self._wake()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._whole:
            return
        self._parts.append(body)
        if self._streams:
            self._size += len(body)
            if self._size > READ_AHEAD and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if not self._headed:
            self._answer = Answer()
            return
        if self._whole:
            return
        self._whole, self._stays = True, self._parser.should_keep_alive()
        self._wake()
