"""One connection: what a client may send, in which order it is answered, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.http.connection import HIGH_WATER, MOST_HEADER_BYTES, Request, Response
from tests.kubesim.http import raw_client
from tests.kubesim.http.raw_client import Loop, RawClient, RawResponse

MOST_BODY = 10_000
GET = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    thread = Loop()
    yield thread
    thread.stop()


class Echo:
    """Answers with what it was asked; ``/wait`` when told to, ``/stream`` with chunks for as long as somebody reads."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.go = asyncio.Event()
        self.chunks = 0  # that the stream gave
        self.chunk = b"x" * 1000
        self.most = 1 << 30
        self.ended = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        if request.fault:
            return Response(b"refused", request.fault)
        if request.path == "/wait":
            await self.go.wait()
        if request.path == "/stream":
            return Response(stream=self._stream())
        if request.path == "/break":
            return Response(stream=self._break())
        return Response(f"{request.method} {request.path} ".encode() + request.body)

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.most):
                self.chunks += 1
                yield self.chunk
                await asyncio.sleep(0)
        finally:
            self.ended.set()

    async def _break(self) -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError("the stream breaks")


class Server:
    """A server over an ``Echo``, and clients that are closed at the end."""

    def __init__(self, loop: Loop, echo: Echo, port: int, everyone: set[Any]) -> None:
        self.loop, self.echo, self.port, self.everyone = loop, echo, port, everyone
        self.clients: list[RawClient] = []

    def client(self) -> RawClient:
        self.clients.append(RawClient(self.port))
        return self.clients[-1]

    def release(self) -> None:
        self.loop.loop.call_soon_threadsafe(self.echo.go.set)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that happens over there."""
        end = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < end, "it does not happen"
            time.sleep(0.005)


@pytest.fixture
def server(loop: Loop) -> Iterator[Server]:
    async def make() -> Echo:
        return Echo()

    echo = loop.run(make())
    with raw_client.logged_errors() as log, raw_client.handler_server(loop, echo, MOST_BODY) as (port, everyone):
        found = Server(loop, echo, port, everyone)
        yield found
        found.release()
        for client in found.clients:
            client.close()
        found.until(lambda: not everyone)
    assert not [text for text in log if "the stream breaks" not in text]


def post(body: bytes, *headers: str, path: str = "/echo") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def asked(client: RawClient, data: bytes, **how: bool) -> RawResponse:
    client.send(data)
    said = client.read(**how)
    assert said is not None
    return said


# ---- one after the other ----------------------------------------------------------------------------------


def test_connection_is_kept_alive(server: Server) -> None:
    client = server.client()
    for body in (b"a", b"", b"bc"):
        said = asked(client, post(body))
        assert (said.code, said.body, said.stays) == (200, b"POST /echo " + body, True)


def test_connection_close_is_honoured(server: Server) -> None:
    client = server.client()
    said = asked(client, post(b"a", "Connection: close"))
    assert said.body == b"POST /echo a" and not said.stays
    assert client.read() is None


@pytest.mark.parametrize("size", [1, 7, 64])
def test_request_sent_in_pieces_is_reassembled(server: Server, size: int) -> None:
    client = server.client()
    whole = post(b"abc" * 20, "X: " + "y" * 100)
    for start in range(0, len(whole) - size, size):
        client.send(whole[start : start + size])
    assert asked(client, whole[start + size :]).body == b"POST /echo " + b"abc" * 20
    assert server.echo.seen[0].headers["x"] == "y" * 100


def test_requests_sent_ahead_are_answered_in_order(server: Server) -> None:
    client = server.client()
    client.send(b"".join(post(b"%d" % number) for number in range(200)))
    for number in range(200):
        said = client.read()
        assert said is not None and said.body == b"POST /echo %d" % number


def test_a_request_waits_for_the_answer_before_it(server: Server) -> None:
    client = server.client()
    client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
    server.until(lambda: len(server.echo.seen) == 1)
    server.release()
    assert [said.body for said in (client.read(), client.read()) if said] == [b"GET /wait ", b"GET /echo "]


def test_a_client_that_only_sends_is_not_listened_to_for_ever(server: Server) -> None:
    """While an answer is due, no more is read than a few requests and what the kernel holds."""
    client = server.client()
    client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda: len(server.echo.seen) == 1)
    (one,) = server.everyone
    client._socket.setblocking(False)
    pushed, quiet = 0, time.monotonic()
    while time.monotonic() - quiet < 0.3 and pushed < 64 << 20:
        try:
            pushed += client._socket.send(GET * 1000)
            quiet = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    client._socket.settimeout(raw_client.PATIENCE)
    assert pushed < 64 << 20, "everything was read"
    assert len(one._waiting) * len(GET) < 1 << 20


def test_head_has_a_length_and_no_body(server: Server) -> None:
    client = server.client()
    said = asked(client, b"HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n", head_only=True)
    assert (said.code, said.headers["content-length"]) == (200, str(len(b"HEAD /echo ")))
    assert asked(client, GET).body == b"GET /echo "  # and the next answer begins where it should


# ---- bodies -----------------------------------------------------------------------------------------------


def test_a_body_in_chunks(server: Server) -> None:
    client = server.client()
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    assert asked(client, head + body).body == b"POST /echo abc0123456789"
    assert "authorization" not in server.echo.seen[0].headers, "a trailer is no header"
    assert asked(client, GET).code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 3x\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: gzip, chunked, x\r\n",
        b"X: a\x00b\r\n",
        b"No colon\r\n",
        b" folded: x\r\n",
    ],
)
def test_ambiguous_request_framing_is_refused(server: Server, head: bytes) -> None:
    client = server.client()
    said = asked(client, b"POST /echo HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n3\r\nabc\r\n0\r\n\r\n" + GET)
    assert said.code == 400 and not said.stays
    assert client.read() is None
    assert [request.fault for request in server.echo.seen] == [400], "nothing after it is taken for a request"


def test_too_large_a_body_is_refused_and_the_next_request_answered(server: Server) -> None:
    client = server.client()
    assert asked(client, post(b"x" * MOST_BODY)).code == 200
    assert asked(client, post(b"x" * (MOST_BODY + 1))).code == 413
    chunked = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert asked(client, chunked + b"2710\r\n%b\r\n1\r\nx\r\n0\r\n\r\n" % (b"x" * MOST_BODY)).code == 413
    assert asked(client, GET).code == 200


def test_expect_100_continue_is_answered(server: Server) -> None:
    client = server.client()
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    client.send(head % 3)
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert asked(client, b"abc").body == b"POST /echo abc"


def test_expect_100_continue_with_too_large_body_is_refused(server: Server) -> None:
    client = server.client()
    said = asked(client, b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
    assert said.code == 413 and not said.stays


def test_100_continue_does_not_interleave_with_a_stream(server: Server) -> None:
    server.echo.most = 50
    client = server.client()
    late = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    said = asked(client, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n" + late, whole=True)
    assert said.body == server.echo.chunk * 50
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert asked(client, b"z").body == b"POST /echo z"


# ---- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "piece", "code"),
    [
        (b"GET /", b"a" * 1000, 414),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 1000, 431),
        (b"GET / HTTP/1.1\r\nX", b"a" * 1000, 431),
        (b"GET / HTTP/1.1\r\n", b"X-Another: header\r\n", 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1000, 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x" * 1000, 431),
    ],
    ids=["address", "header", "header name", "headers", "chunk extension", "trailer"],
)
def test_a_head_without_an_end_is_refused(server: Server, start: bytes, piece: bytes, code: int) -> None:
    """The answer comes while the client is still sending, and it arrives."""
    client = server.client()
    client.send(start)
    sent = 0
    while sent < 4 * MOST_HEADER_BYTES and client.send(piece):
        sent += len(piece)
    said = client.read()
    assert said is not None and said.code == code and not said.stays


@pytest.mark.parametrize(
    "bad",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /echo\r\n\r\n",  # HTTP/0.9
        b"GET /echo HTTP/3.0\r\n\r\n",
        b"get /echo HTTP/1.1\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"\x00" * 100,
        b"{}\n",
    ],
)
def test_malformed_request_gets_400_after_pending_responses(server: Server, bad: bytes) -> None:
    client = server.client()
    client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET + bad + GET)
    server.until(lambda: len(server.echo.seen) == 1)
    server.release()
    answers = [client.read(), client.read(), client.read()]
    assert [said.code for said in answers if said] == [200, 200, 400]
    assert client.read() is None
    assert [request.path for request in server.echo.seen if not request.fault] == ["/wait", "/echo"]


def test_protocol_upgrade_is_refused(server: Server) -> None:
    """Who wants to change the protocol is answered in this one; a body would not be read, so it is refused."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    client = server.client()
    said = asked(client, b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert (said.code, said.body, said.stays) == (200, b"GET /echo ", False)
    assert asked(server.client(), post(b"abc", *upgrade)).code == 400
    assert asked(server.client(), b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n").code == 200
    assert not any(request.body for request in server.echo.seen)


def test_http_1_0_connection_is_closed_after_response(server: Server) -> None:
    client = server.client()
    said = asked(client, b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert said.body == b"GET /echo " and not said.stays
    assert client.read() is None


def test_http_1_0_stream_is_not_chunked(server: Server) -> None:
    server.echo.most = 3
    said = asked(server.client(), b"GET /stream HTTP/1.0\r\n\r\n")
    assert said.body == server.echo.chunk * 3 and "transfer-encoding" not in said.headers


# ---- streams ----------------------------------------------------------------------------------------------


def test_after_a_stream_the_client_may_ask_again(server: Server) -> None:
    server.echo.most = 20
    client = server.client()
    for _ in range(2):
        said = asked(client, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n" + GET, whole=True)
        assert said.body == server.echo.chunk * 20
        after = client.read()
        assert after is not None and after.body == b"GET /echo "


def test_a_client_that_does_not_read_makes_the_stream_wait(server: Server) -> None:
    """What waits for it is bounded by the high-water mark and the kernel's buffers, and it misses nothing."""
    server.echo.chunk = b"%d" % 7 * 50_000
    client = server.client()
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    before = -1
    while server.echo.chunks != before:  # until it stands still
        before = server.echo.chunks
        time.sleep(0.2)
    (one,) = server.everyone
    assert one._transport.get_write_buffer_size() <= HIGH_WATER + 2 * len(server.echo.chunk)
    assert before * len(server.echo.chunk) < 64 << 20
    said = client.read()
    assert said is not None and said.stream
    for _ in range(before + 20):
        assert client.chunk() == server.echo.chunk
    assert server.echo.chunks > before


@pytest.mark.parametrize("unread", [1, 200])
def test_a_stream_ends_when_its_client_goes(server: Server, unread: int) -> None:
    client = server.client()
    client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda: server.echo.chunks > unread)
    client.close()
    server.until(server.echo.ended.is_set)
    server.until(lambda: not server.everyone)


def test_a_stream_that_breaks_is_cut_off_and_said_in_the_log(server: Server) -> None:
    client = server.client()
    said = asked(client, b"GET /break HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.stream and client.chunk() == b"first"
    with pytest.raises(raw_client.Broken):
        client.chunk()


# ---- ends -------------------------------------------------------------------------------------------------


def test_half_closed_connection_is_answered(server: Server) -> None:
    client = server.client()
    client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
    client.half_close()
    server.until(lambda: len(server.echo.seen) == 1)
    server.release()
    assert [said.body for said in (client.read(), client.read()) if said] == [b"GET /wait ", b"GET /echo "]
    assert client.read() is None


@pytest.mark.parametrize("cut", range(0, 54, 7))
def test_half_a_request_is_no_request(server: Server, cut: int) -> None:
    client = server.client()
    client.send(post(b"abc")[:cut])
    client.half_close()
    assert client.rest() == b""
    assert server.echo.seen == []
    server.until(lambda: not server.everyone)


def test_a_write_goes_on_when_its_client_goes(server: Server) -> None:
    client = server.client()
    client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda: len(server.echo.seen) == 1)
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset
    client.close()
    server.until(lambda: not server.everyone)
    server.release()
    assert asked(server.client(), GET).code == 200


def test_stop_closes_idle_connections_answers_busy_ones_and_ends_streams(server: Server) -> None:
    idle, busy, watching = server.client(), server.client(), server.client()
    asked(idle, GET)
    busy.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
    asked(watching, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda: any(request.path == "/wait" for request in server.echo.seen))

    async def stop() -> None:
        for one in list(server.everyone):
            one.stop()

    server.loop.run(stop())
    assert idle.read() is None
    while watching.chunk() is not None:
        pass
    assert watching.read() is None
    server.release()
    said = busy.read()
    assert said is not None and said.body == b"GET /wait " and not said.stays
    assert busy.read() is None
    server.until(lambda: not server.everyone)


@pytest.mark.timeout(60)
def test_a_server_stops_in_time_whatever_its_clients_do(loop: Loop) -> None:
    """One is idle, one is in the middle of a request, one watches, one watches and does not read."""
    with raw_client.logged_errors() as log, contextlib.ExitStack() as clients, raw_client.bare_server(loop) as served:
        for start in (b"", b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Le", WATCH, WATCH):
            client = RawClient(served.port)
            clients.callback(client.close)
            client.send(start)
        time.sleep(0.1)
    assert not log  # and the server has ended: else the time limit of the test does


WATCH = b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n"


# ---- whatever comes ---------------------------------------------------------------------------------------

PIECES = [
    GET, post(b"abc"), post(b""), b"HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /echo HTTP/1.0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", post(b"x" * (MOST_BODY + 1)),
    b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", b"hi", b"\r\n", b"\n", b"\x00",
    b"0\r\n\r\n", b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET /echo HTTP/1.1\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", b"GET http://x/echo HTTP/1.1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n\r\n", b"CONNECT a HTTP/1.1\r\n\r\n", b"GET /\xff\xfe?\x80 HTTP/1.1\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET", b"X: y\r\n", b"Content-Length: 3\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", b"GET / HTTP/1.1\nHost: x\n\n", b" HTTP/1.1\r\n",
]  # fmt: skip


@settings(max_examples=300)
@given(
    pieces=st.lists(st.integers(0, len(PIECES) - 1) | st.binary(max_size=20), min_size=1, max_size=8),
    size=st.sampled_from([1 << 20, 1000, 17]),
    cut=st.integers(0, 30),
)
def test_arbitrary_bytes_get_http_responses_or_none(loop: Loop, pieces: list[int | bytes], size: int, cut: int) -> None:
    """Every request that the handler saw has an answer, in order, and there are no others; then the server hangs up."""
    seen: list[Request] = []

    async def handler(request: Request) -> Response:
        seen.append(request)
        return Response(b"%d" % len(seen), request.fault or 200)

    whole = b"".join(PIECES[piece] if isinstance(piece, int) else piece for piece in pieces)
    whole = whole[: len(whole) - cut] if cut < len(whole) else whole
    with raw_client.logged_errors() as log, raw_client.handler_server(loop, handler, MOST_BODY) as (port, _):
        client = RawClient(port)
        for start in range(0, min(len(whole), 100 * size), size):
            client.send(whole[start : start + size])
        client.half_close()
        client.unread(client.rest())  # everything, so that it is known which answers have no body
        client.close()
    answers = [client.read(head_only=request.method == "HEAD") for request in seen]
    assert client.read() is None
    assert not log
    assert [said.code for said in answers if said] == [request.fault or 200 for request in seen]
    assert all(said and said.body in {b"", b"%d" % number} for number, said in enumerate(answers, 1))
