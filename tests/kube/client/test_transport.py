"""Calls over HTTP: what is tried again and what is not, limits, tokens, TLS, streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kubernetes import free_ports
from kubesim.http.connection import Request, Response
from kubesim.http.tls import load_or_issue_certificates
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Limits, Session
from pumice.kube.resources import NAMESPACES
from tests.support import scripted_server
from tests.support.apiserver import memory_api
from tests.support.served_api import served

QUICK = Limits(attempts=3, first_pause=0.001, longest_pause=0.002, timeout=10)
STATUS = b'{"kind":"Status","code":%d,"reason":"%s","message":"so it is","details":{"kind":"pods"}}'


Handler = Callable[[Request], Awaitable[Response]]


def said(code: int, reason: str = "", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(STATUS % (code, reason.encode()), code, headers=named)


class Script:
    """Answers with one thing after the other; None hangs up instead. The last goes on for ever."""

    def __init__(self, *answers: Response | None) -> None:
        self.answers = list(answers)
        self.seen: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise ConnectionError("hang up")
        return answer


@contextlib.asynccontextmanager
async def answering(handler: Handler, limits: Limits = QUICK, **access: Any) -> AsyncIterator[Session]:
    async with (
        scripted_server.answering(handler) as address,
        Session(Access(f"{address}/prefix", **access), limits) as s,
    ):
        yield s


def call(script: Script, method: str, **more: Any) -> bytes:
    async def ask() -> bytes:
        async with answering(script) as session:
            return await session.call(method, "/x", **more)

    return asyncio.run(ask())


@pytest.mark.parametrize("trouble", [None, said(503), said(500), said(429), said(429, Retry_After="0")])
def test_a_get_is_tried_again(trouble: Response | None, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(trouble, trouble, Response(b"fine"))
    assert call(script, "GET") == b"fine"
    assert [request.path for request in script.seen] == ["/prefix/x"] * 3


def test_but_not_for_ever() -> None:
    script = Script(said(503, "ServiceUnavailable"))
    with pytest.raises(ApiError) as refused:
        call(script, "GET")
    assert len(script.seen) == 3
    error = refused.value
    assert (error.code, error.reason, str(error), error.details) == (
        503,
        "ServiceUnavailable",
        "so it is",
        {"kind": "pods"},
    )


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 410, 422])
def test_a_no_is_a_no(code: int) -> None:
    script = Script(said(code))
    with pytest.raises(ApiError):
        call(script, "GET")
    assert len(script.seen) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_that_may_have_been_carried_out_is_not_sent_twice(method: str) -> None:
    script = Script(Response(b"warm"), None, Response(b"again"))

    async def ask() -> None:
        async with answering(script) as session:
            await session.call("GET", "/x")  # so that the connection is one that was kept
            await session.call(method, "/x", body=b"{}")

    with pytest.raises(UnreachableError) as lost:
        asyncio.run(ask())
    assert lost.value.sent
    assert len(script.seen) == 2


@pytest.mark.parametrize("code", [500, 503, 429])
def test_nor_is_one_that_was_refused_without_a_time(code: int) -> None:
    script = Script(said(code), Response(b"again"))
    with pytest.raises(ApiError):
        call(script, "POST", body=b"{}")
    assert len(script.seen) == 1


def test_a_write_that_is_put_off_comes_back() -> None:
    assert call(Script(said(429, Retry_After="0"), Response(b"fine")), "POST", body=b"{}") == b"fine"
    with pytest.raises(ApiError):
        call(Script(said(429, Retry_After="0"), Response(b"fine")), "POST", body=b"{}", patient=False)
    with pytest.raises(ApiError) as refused:
        call(Script(said(429, Retry_After="3600"), Response(b"fine")), "POST", body=b"{}")
    assert refused.value.retry_after == 3600


def test_write_to_closed_port_is_retried_and_reported_unsent() -> None:
    async def ask() -> None:
        port = free_ports(1)[0]
        async with Session(Access(f"http://127.0.0.1:{port}"), QUICK) as session:
            with pytest.raises(UnreachableError) as lost:
                await session.call("POST", "/x", body=b"{}")
            assert not lost.value.sent
            patient = Limits(attempts=1000, first_pause=0.001, longest_pause=0.01)
            async with Session(Access(f"http://127.0.0.1:{port}"), patient) as other, memory_api() as api:
                writing = asyncio.create_task(Api(other).create(NAMESPACES.raw, {"metadata": {"name": "late"}}))
                await asyncio.sleep(0.02)
                async with served(api, port):
                    assert (await writing)["metadata"]["name"] == "late"

    asyncio.run(ask())


def test_an_answer_of_something_else_is_still_an_error() -> None:
    with pytest.raises(ApiError, match="502 Bad Gateway") as refused:
        call(Script(Response(b"<html>", 502, "text/html")), "POST")
    assert (refused.value.code, refused.value.reason) == (502, "")
    with pytest.raises(ApiError):  # a redirect is not followed: it might lead anywhere, with our token
        call(Script(Response(b"", 302, headers={"Location": "http://127.0.0.1:1/"})), "POST")


def test_session_limits_concurrent_calls() -> None:
    now, most = 0, 0

    async def slow(_: Request) -> Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1
        return Response(b"fine")

    async def ask() -> None:
        async with answering(slow, Limits(in_flight=3)) as session:
            await asyncio.gather(*(session.call("GET", "/x") for _ in range(20)))

    asyncio.run(ask())
    assert most == 3


def test_reads_and_evictions_do_not_wait_for_thousands_of_binds() -> None:
    async def ask() -> None:
        others_done = asyncio.Event()
        binds = 0

        async def slow(request: Request) -> Response:
            nonlocal binds
            if request.path.endswith("/binding"):
                binds += 1
                await others_done.wait()
            return Response(b"{}")

        async with answering(slow, Limits(in_flight=2)) as session, asyncio.timeout(30):
            api = Api(session)
            writes = [asyncio.create_task(api.bind("ns", f"p{number}", "n")) for number in range(3000)]
            try:
                while binds < 2:
                    await asyncio.sleep(0.001)
                async with asyncio.timeout(10):
                    assert await session.call("GET", "/x") == b"{}"
                    await api.evict("ns", "q", uid="u")
                assert binds == 2
            finally:
                others_done.set()
                for write in writes[2:]:
                    write.cancel()
                await asyncio.gather(*writes, return_exceptions=True)

    asyncio.run(ask())


def test_a_call_that_takes_too_long_is_given_up() -> None:
    async def late(_: Request) -> Response:
        await asyncio.sleep(1)
        return Response()

    async def ask() -> None:
        async with answering(late, Limits(timeout=0.05, attempts=1)) as session:
            with pytest.raises(UnreachableError) as lost:
                await session.call("POST", "/x")
            assert lost.value.sent

    asyncio.run(ask())


def test_a_token_from_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    valid = "old"

    async def guarded(request: Request) -> Response:
        right = request.header("authorization") == f"Bearer {valid}"
        return Response(b"in") if right else said(401, "Unauthorized")

    async def ask() -> None:
        nonlocal valid
        async with answering(guarded, token="old", token_file=path) as session:
            assert await session.call("POST", "/x") == b"in"
            path.write_text("new\n")
            assert await session.call("POST", "/x") == b"in"  # not yet: the old one is good enough
            valid = "new"
            assert await session.call("POST", "/x") == b"in"  # refused, read again, and in
            valid = "unknown"
            with pytest.raises(ApiError):
                await session.call("POST", "/x")
            path.unlink()
            with pytest.raises(ApiError):
                await session.call("POST", "/x")

    asyncio.run(ask())


def test_after_a_minute_it_is_read_before_it_is_refused(tmp_path: Path) -> None:
    path, time = tmp_path / "token", [0.0]
    path.write_text("new")

    async def ask() -> None:
        async with memory_api() as api, served(api, token="new") as port:
            access = Access(f"http://127.0.0.1:{port}", token="old", token_file=path)
            async with Session(access, Limits(attempts=1), now=lambda: time[0]) as session:
                with pytest.raises(ApiError):
                    await session.call("GET", "/api/v1/nodes")
                time[0] = 60.0
                assert await session.call("GET", "/api/v1/nodes")

    asyncio.run(ask())


def test_tls_and_a_token(tmp_path: Path) -> None:
    made = load_or_issue_certificates(tmp_path, "127.0.0.1")
    authority = made.authority.read_bytes()

    async def ask() -> None:
        async with memory_api() as api, served(api, token="secret", tls=made.context()) as port:

            async def names(**access: Any) -> list[str]:
                given = Access(f"https://127.0.0.1:{port}", **access)
                async with Session(given, QUICK) as session:
                    return [found.metadata.name for found in (await Api(session).list(NAMESPACES)).items]

            assert "default" in await names(token="secret", authority=authority)
            assert "default" in await names(token="secret", verify=False)
            assert "default" in await names(token="secret", authority=authority, server_name="127.0.0.1")
            with pytest.raises(ApiError) as refused:
                await names(token="wrong", authority=authority)
            assert refused.value.code == 401
            with pytest.raises(UnreachableError, match="certificate verify failed"):
                await names(token="secret")
            with pytest.raises(UnreachableError, match=r"(?i)certificate"):
                await names(token="secret", authority=authority, server_name="elsewhere.example")

    asyncio.run(ask())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_arrive_whole_wherever_the_wire_breaks_them(size: int) -> None:
    text = b"".join(b"line %d %s\n" % (n, b"x" * n) for n in range(30)) + b"the end is miss"

    async def stream(_: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(text), size):
                yield text[at : at + size]

        return Response(stream=chunks())

    async def ask() -> list[bytes]:
        async with answering(stream) as session:
            return [line async for lines in session.lines("/x", {}, silence=10) for line in lines]

    assert asyncio.run(ask()) == text.split(b"\n")[:-1]


def test_a_stream_that_says_nothing_is_lost() -> None:
    async def quiet(_: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one\n"
            await asyncio.sleep(60)

        return Response(stream=chunks())

    async def ask() -> None:
        async with answering(quiet) as session:
            stream = session.lines("/x", {}, silence=0.05)
            assert [await anext(stream), await anext(stream)] == [[], [b"one"]]
            with pytest.raises(UnreachableError):
                await anext(stream)

    asyncio.run(ask())
