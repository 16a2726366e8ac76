"""What a connection makes of the bytes that a server sends, whole or in pieces."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from pumice.kube.client import connection as module
from pumice.kube.client.api_errors import CredentialError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Limits, Session

ONCE = Limits(attempts=1, timeout=10)
FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def serve(*answers: bytes | None, ask: Callable[[Session], Awaitable[object]], limits: Limits = ONCE) -> int:
    """Answer each request with the next of these, None with silence; how many connections were made.

    Bytes that do not announce where they end are followed by the end of the connection.
    """
    left, connections = list(answers), 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while left:
                await reader.readuntil(b"\r\n\r\n")
                answer = left.pop(0)
                if answer is None:
                    await reader.read()
                    return
                for at in range(0, len(answer), 3) if len(answer) < 300 else [0]:
                    writer.write(answer[at : at + 3] if len(answer) < 300 else answer)
                    await asyncio.sleep(0)
                await writer.drain()
                if b"Content-Length" not in answer and not answer.endswith(b"\r\n0\r\n\r\n"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Session(Access(f"http://127.0.0.1:{port}"), limits) as session:
            await ask(session)

    asyncio.run(run())
    return connections


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (FINE, b"fine"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, b"fine"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + FINE, b"fine"),
        (CHUNKED + b"2\r\nfi\r\n2;ext=1\r\nne\r\n0\r\n\r\n", b"fine"),
        (CHUNKED + b"4\r\nfine\r\n0\r\nTrailer: late\r\n\r\n", b"fine"),
        (b"HTTP/1.0 200 OK\r\n\r\nfine", b"fine"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
def test_body_is_what_the_server_sent(sent: bytes, body: bytes) -> None:
    async def ask(session: Session) -> None:
        assert await session.call("GET", "/x") == body

    serve(sent, ask=ask)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "the server hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine", "the answer broke off"),
        (CHUNKED + b"5\r\nfine", "the answer broke off"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
        (CHUNKED + b"zz\r\n\r\n", "the answer is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(8000)),
            "the head of the answer is too long",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 80_000, "the head of the answer is too long"),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 4000, "the head of the answer is too long"),
    ],
)
def test_an_answer_that_is_none_leaves_the_outcome_unknown(sent: bytes, words: str) -> None:
    async def ask(session: Session) -> None:
        with pytest.raises(UnreachableError, match=words) as lost:
            await session.call("POST", "/x", body=b"{}")
        assert lost.value.sent

    serve(sent, ask=ask)


def test_one_connection_serves_requests_one_after_the_other() -> None:
    async def ask(session: Session) -> None:
        for _ in range(5):
            assert await session.call("GET", "/x") == b"fine"

    assert serve(*[FINE] * 5, ask=ask) == 1


@pytest.mark.parametrize(
    "first", [FINE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), FINE + b"and more"], ids=["close", "more"]
)
def test_a_connection_that_cannot_be_trusted_with_another_request_is_not_used_again(first: bytes) -> None:
    async def ask(session: Session) -> None:
        assert await session.call("GET", "/x") == b"fine"
        await asyncio.sleep(0.05)  # so that what came too much has been read
        assert await session.call("GET", "/x") == b"fine"

    assert serve(first, FINE, ask=ask) == 2


def test_a_second_answer_in_the_same_piece_changes_nothing_of_the_first() -> None:
    padded = FINE.replace(b"\r\n\r\n", b"\r\nX-Padding: " + b"x" * 300 + b"\r\n\r\n")  # so that all is sent at once
    other = b"HTTP/1.1 500 Other\r\nContent-Length: 5\r\n\r\nother"

    async def ask(session: Session) -> None:
        assert await session.call("GET", "/x") == b"fine"
        assert await session.call("GET", "/x") == b"fine"

    assert serve(padded + other, FINE, ask=ask) == 2


def test_a_write_on_a_connection_that_the_server_closes_meanwhile_is_not_sent_again() -> None:
    async def ask(session: Session) -> None:
        assert await session.call("GET", "/x") == b"fine"
        with pytest.raises(UnreachableError) as lost:
            await session.call("POST", "/x", body=b"{}")
        assert lost.value.sent

    assert serve(FINE, b"", FINE, ask=ask, limits=Limits(attempts=5, timeout=10)) == 1


def test_a_connection_that_ends_as_it_begins_is_used_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Session._connect

    async def closed(session: Session) -> module.Connection:
        made = await connect(session)
        made.close()
        return made

    async def ask(session: Session) -> None:
        monkeypatch.setattr(Session, "_connect", closed)
        with pytest.raises(UnreachableError, match="hung up") as lost:
            await session.call("POST", "/x", body=b"{}")
        assert not lost.value.sent

    serve(FINE, ask=ask)


def test_an_answer_is_not_kept_until_the_next_request() -> None:
    async def ask(session: Session) -> None:
        answer = await session.call("GET", "/x")
        await asyncio.sleep(0)
        assert not [each for each in gc.get_referrers(answer) if isinstance(each, module.Answer)]

    serve(FINE, ask=ask)


def test_a_call_that_was_given_up_leaves_its_answer_to_nobody() -> None:
    async def ask(session: Session) -> None:
        call = asyncio.create_task(session.call("GET", "/late"))
        await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert await session.call("GET", "/x") == b"fine"

    assert serve(None, FINE, ask=ask) == 2


def test_a_stream_whose_head_never_comes_is_lost() -> None:
    async def ask(session: Session) -> None:
        with pytest.raises(UnreachableError):
            await anext(session.lines("/x", {}, silence=0.05))

    serve(None, ask=ask)


def test_a_reader_that_is_slow_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_AHEAD", 1000)
    line = b"x" * 99 + b"\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for _ in range(200_000)) + b"0\r\n\r\n"
    most = 0

    async def ask(session: Session) -> None:
        nonlocal most
        count = 0
        async with aclosing(session.lines("/x", {}, silence=10)) as stream:
            async for lines in stream:
                count += len(lines)
                most = max(most, len(lines))
                await asyncio.sleep(0)
        assert count == 200_000

    serve(CHUNKED + body, ask=ask)
    assert most < 20_000, "the whole stream was read ahead"


def test_calls_that_are_given_up_while_they_connect_leave_no_sockets() -> None:
    async def ask(session: Session) -> None:
        for steps in range(12):
            call = asyncio.create_task(session.call("GET", "/x"))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        serve(*[FINE] * 12, ask=ask)
        gc.collect()
    assert [str(one.message) for one in seen] == []


def test_the_next_address_of_a_server_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two_addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(None, None, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

    async def ask(session: Session) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two_addresses)
        named = replace(session.access, server=session.access.server.replace("127.0.0.1", "server.example"))
        async with Session(named, ONCE) as other:
            assert await other.call("POST", "/x", body=b"{}") == b"fine"

    assert serve(FINE, ask=ask) == 1


def test_an_address_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(session: Session) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", None)
        assert await session.call("GET", "/x") == b"fine"

    serve(FINE, ask=ask)


def test_the_end_of_a_session_ends_streams_that_nobody_reads() -> None:
    async def ask(session: Session) -> None:
        stream = session.lines("/x", {}, silence=10)
        assert await anext(stream) == []
        async with session:
            pass
        with pytest.raises(UnreachableError):
            await anext(stream)

    serve(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine", ask=ask)


@pytest.mark.parametrize("path", ["/x y", "/x\r\nHost: other", "/x\n", "/\x00"])
def test_a_path_that_would_be_more_than_a_path_is_refused(path: str) -> None:
    async def ask(session: Session) -> None:
        with pytest.raises(ValueError, match="is not a path"):
            await session.call("GET", path)

    assert serve(FINE, ask=ask) == 0


@pytest.mark.parametrize("token", ["a\r\nImpersonate-User: root", "a\nb", "ü"])
def test_a_token_that_would_be_more_than_a_token_is_not_sent(token: str) -> None:
    async def ask(session: Session) -> None:
        async with Session(replace(session.access, token=token), ONCE) as other:
            with pytest.raises(CredentialError, match="no HTTP header"):
                await other.call("GET", "/x")

    assert serve(FINE, ask=ask) == 0


def test_a_session_that_is_not_open_says_so() -> None:
    async def ask() -> None:
        with pytest.raises(RuntimeError, match="not open"):
            await Session(Access("http://127.0.0.1:1")).call("GET", "/x")

    asyncio.run(ask())
