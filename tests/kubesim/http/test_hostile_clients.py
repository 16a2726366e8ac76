"""Clients that try to stop or to fill the server: slow ones, greedy ones, and expensive requests."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kubesim.api.status import ApiError
from kubesim.http import listen
from kubesim.http.connection import ARRIVAL_SECONDS, IDLE_SECONDS, Connection, Request, Response
from kubesim.http.handler import LONGEST_WARNING, MOST_WARNING_LETTERS, shorten_warnings
from kubesim.http.yaml_bodies import decode_yaml
from tests.kubesim.http import raw_client
from tests.kubesim.http.raw_client import Loop, RawClient

LARGE = b"x" * (4 << 20)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    thread = Loop()
    yield thread
    thread.stop()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)


# ---- expensive requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1:59:59", "-12:30", "190:20:30.15", "1" + ":59" * 100_000])
def test_numbers_of_base_60_are_text(text: str) -> None:
    assert decode_yaml(f"a: {text}".encode()) == {"a": text}


@pytest.mark.parametrize("tag", ["int", "float"])
def test_numbers_of_base_60_are_refused_even_with_a_tag(tag: str) -> None:
    with pytest.raises(ApiError, match="not a number"):
        decode_yaml(f'a: !!{tag} "1{":59" * 100_000}"'.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-1_000", -1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("017", 15),
        ("1.5", 1.5),
        ("6.e+3", 6000.0),
        (".5", 0.5),
    ],
)
def test_other_numbers_are_numbers(text: str, value: float) -> None:
    assert decode_yaml(f"a: {text}".encode()) == {"a": value}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_options_of_a_deletion_are_small(loop: Loop) -> None:
    body = b'{"kind":"DeleteOptions","apiVersion":"v1","orphan":"' + b"x" * 70_000 + b'"}'
    with raw_client.bare_server(loop) as server:
        client = RawClient(server.port)
        head = f"DELETE {CONFIG_MAPS}/none HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.send(head.encode() + body)
        said = client.read()
        client.close()
    assert said is not None and said.code == 413


def test_many_warnings_fit_into_the_headers_of_an_answer() -> None:
    texts = [f'unknown field "spec.field{number}"' for number in range(20_000)]
    kept = shorten_warnings(texts)
    assert sum(map(len, kept[:-1])) <= MOST_WARNING_LETTERS
    assert kept[:-1] == texts[: len(kept) - 1]
    assert kept[-1] == f"{20_000 - len(kept) + 1} more warnings are not shown"
    assert len(shorten_warnings(["x" * 5000])[0]) == LONGEST_WARNING
    assert shorten_warnings(texts[:10]) == texts[:10]


def test_deeply_nested_continue_token_is_refused(loop: Loop) -> None:
    token = base64.urlsafe_b64encode(b"[" * 40_000).decode()
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as server:
        client = RawClient(server.port)
        client.send(f"GET /api/v1/pods?limit=1&continue={token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        said = client.read()
        client.close()
    assert said is not None and said.code == 400
    assert not log


# ---- greedy clients -----------------------------------------------------------------------------------------------


def test_next_request_waits_until_the_answer_before_it_is_read(loop: Loop) -> None:
    seen: list[Request] = []

    async def answer(request: Request) -> Response:
        seen.append(request)
        return Response(LARGE)

    with raw_client.handler_server(loop, answer) as (port, everyone):
        client = RawClient(port)
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 7)
        until(lambda: bool(seen))
        time.sleep(0.2)
        assert len(seen) <= 2  # the kernel may have taken one answer
        for _ in range(7):
            said = client.read()
            assert said is not None and said.body == LARGE
        client.close()
        until(lambda: not everyone)


def test_body_is_not_read_before_the_client_is_known(loop: Loop) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"refused" if request.fault else b"taken", request.fault or 200)

    def judge(request: Request) -> int:
        return 0 if request.header("authorization") == "Bearer right" else 401

    everyone: set[Connection] = set()
    with ExitStack() as stack:

        async def start() -> int:
            server = await loop.loop.create_server(lambda: Connection(answer, everyone, 1 << 20, judge), "127.0.0.1", 0)
            stack.callback(loop.loop.call_soon_threadsafe, server.close)
            port: int = server.sockets[0].getsockname()[1]
            return port

        port = loop.run(start())
        for authorization, code in (("wrong", 401), ("right", 200)):
            client = RawClient(port)
            head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {authorization}\r\nContent-Length: 5\r\n\r\n"
            client.send(head.encode() + (b"" if code == 401 else b"12345"))
            said = client.read()
            assert said is not None and said.code == code
            client.close()
        until(lambda: not everyone)


@pytest.mark.parametrize("header", ["Host: y", "Authorization: Bearer b", "Transfer-Encoding: identity"])
def test_headers_that_must_not_be_doubled_are_refused(loop: Loop, header: str) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"", request.fault or 200)

    with raw_client.handler_server(loop, answer) as (port, everyone):
        client = RawClient(port)
        client.send(f"GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n{header}\r\n\r\n".encode())
        said = client.read()
        assert said is not None and said.code == 400
        client.close()
        until(lambda: not everyone)


def test_client_that_has_gone_leaves_no_lines_in_the_log(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """It asks a hundred times and hangs up: asyncio would complain about every answer to nobody."""
    seen: list[Request] = []

    async def answer(request: Request) -> Response:
        seen.append(request)
        return Response(b"x" * 1000)

    with raw_client.handler_server(loop, answer) as (port, everyone):
        for _ in range(5):
            client = RawClient(port)
            client.reset_on_close()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
            client.close()
        until(lambda: bool(seen) and not everyone)
    assert not [record for record in caplog.records if "socket.send" in record.getMessage()]


def test_requests_in_a_row_leave_turns_for_others(loop: Loop) -> None:
    """Requests that were sent together are not answered in one go: each may take as long as one may take."""
    turns: list[int] = []

    async def answer(request: Request) -> Response:
        turns.append(0)
        loop.loop.call_soon(lambda: turns.append(1))
        return Response(b"")

    with raw_client.handler_server(loop, answer) as (port, everyone):
        client = RawClient(port)
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        for _ in range(20):
            assert (said := client.read()) is not None and said.code == 200
        client.close()
        until(lambda: not everyone)
    assert turns == [0, 1] * 20


# ---- slow clients -------------------------------------------------------------------------------------------------


def test_client_that_takes_too_long_is_overdue(loop: Loop) -> None:
    async def answer(request: Request) -> Response:
        return Response(LARGE)

    async def overdue(after: float) -> bool:
        (connection,) = everyone
        return bool(connection.is_overdue(loop.loop.time() + after))

    with raw_client.handler_server(loop, answer) as (port, everyone):
        client = RawClient(port)
        until(lambda: len(everyone) == 1)
        assert not loop.run(overdue(ARRIVAL_SECONDS + 1))
        assert loop.run(overdue(IDLE_SECONDS + 1))  # it never asks
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        until(lambda: loop.run(overdue(ARRIVAL_SECONDS + 1)))  # it never completes its request
        client.send(b"\r\n")
        until(lambda: not loop.run(overdue(ARRIVAL_SECONDS + 1)))
        assert loop.run(overdue(IDLE_SECONDS + 1))  # it never reads the answer
        client.close()
        until(lambda: not everyone)


def test_overdue_clients_are_dropped(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesim.http.connection.ARRIVAL_SECONDS", 0.05)
    monkeypatch.setattr(listen, "SWEEP_SECONDS", 0.05)
    with raw_client.bare_server(loop) as server:
        slow = RawClient(server.port)
        slow.send(b"GET /healthz HTTP/1.1\r\n")
        assert slow.read() is None
        slow.close()
        quick = RawClient(server.port)
        quick.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = quick.read()
        assert said is not None and said.code == 200
        quick.close()


def test_clients_beyond_the_limit_are_turned_away(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "most_connections", lambda: 2)
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with raw_client.bare_server(loop) as server:
        kept = [RawClient(server.port) for _ in range(2)]
        for client in kept:
            client.send(ask)
            assert (said := client.read()) is not None and said.code == 200
        third = RawClient(server.port)
        third.send(ask)
        assert third.read() is None
        third.close()
        kept[0].close()

        def comes_in() -> bool:
            with socket.create_connection(("127.0.0.1", server.port), timeout=raw_client.PATIENCE) as again:
                try:
                    again.sendall(ask)
                    return again.recv(12) == b"HTTP/1.1 200"
                except ConnectionError:
                    return False

        until(comes_in)
        kept[1].close()


def test_limit_of_connections_leaves_files_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in ((256, 192), (1 << 20, listen.MOST_CONNECTIONS), (20, 16)):
        monkeypatch.setattr(listen.resource, "getrlimit", lambda _, files=files: (files, files))
        assert listen.most_connections() == most
