"""Calls while things change under them: the token, the authorities, the right to write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubesim.http.connection import Request, Response
from kubesim.http.tls import load_or_issue_certificates
from pumice.kube.client.api_errors import UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Limits, Session
from tests.support import scripted_server
from tests.support.apiserver import memory_api
from tests.support.served_api import served
from tests.support.unsteady_proxy import Proxy, unsteady

ONCE = Limits(attempts=1)
NODES = "/api/v1/nodes"
REFUSED = b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}'


def test_a_token_replaced_under_many_writes_fails_none_of_them(tmp_path: Path) -> None:
    file, valid = tmp_path / "token", ["old"]
    file.write_text("old")

    async def handle(request: Request) -> Response:
        await asyncio.sleep(0.02)  # so that they are all under way when the first is refused
        if request.headers.get("authorization") != f"Bearer {valid[0]}":
            return Response(REFUSED, 401)
        return Response(b"{}")

    async def ask() -> None:
        async with scripted_server.answering(handle) as address:
            access = Access(address, token="old", token_file=file)
            async with Session(access, Limits(attempts=2)) as session:
                await session.call("POST", "/x")
                valid[0] = "new"
                file.write_text("new")
                await asyncio.gather(*(session.call("POST", f"/{number}") for number in range(50)))

    asyncio.run(ask())


@contextlib.asynccontextmanager
async def behind_tls(folder: Path) -> AsyncIterator[tuple[int, bytes]]:
    """An API with a certificate by authorities of its own: its port, and they."""
    folder.mkdir()
    made = load_or_issue_certificates(folder, "127.0.0.1")
    async with memory_api() as api, served(api, tls=made.context()) as port:
        yield port, made.authority.read_bytes()


def test_authorities_that_were_replaced_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ca.crt"

    async def ask() -> None:
        async with (
            behind_tls(tmp_path / "first") as (port, authorities),
            behind_tls(tmp_path / "second") as (next_port, next_authorities),
            unsteady(port) as proxy,
        ):
            file.write_bytes(authorities)
            access = Access(f"https://127.0.0.1:{proxy.port}", authority=authorities, authority_file=file)
            async with Session(access, ONCE) as session:
                assert await session.call("GET", NODES)
                proxy.upstream = next_port
                proxy.cut()
                for content in (authorities, b"\xff", b"-----BEGIN CERTIFICATE-----\nno\n"):
                    file.write_bytes(content)
                    for _ in range(2):  # whatever the file says, it ends as it ended
                        with pytest.raises(UnreachableError, match="certificate verify failed"):
                            await asyncio.wait_for(_unbroken(session), 10)
                file.write_bytes(next_authorities)
                with pytest.raises(UnreachableError, match="certificate verify failed"):
                    await session.call("GET", NODES)
                assert await session.call("GET", NODES)
                assert any(str(file) in record.message for record in caplog.records)
            async with Session(access, Limits(attempts=2, first_pause=0.001)) as patient:
                assert await patient.call("GET", NODES)  # at the second attempt

    asyncio.run(ask())


async def _unbroken(session: Session) -> bytes:
    """A call over a connection that is not one of those that have just been cut."""
    while True:
        try:
            return await session.call("GET", NODES)
        except UnreachableError as error:
            if "certificate" in str(error):
                raise


@contextlib.asynccontextmanager
async def held_back(folder: Path) -> AsyncIterator[tuple[Proxy, dict[str, Any], Any]]:
    """An API with which nobody gets beyond the first word, until it is let go: the wire, the access, what came."""
    made = load_or_issue_certificates(folder, "127.0.0.1")
    async with memory_api() as api, served(api, tls=made.context()) as port, unsteady(port) as proxy:
        proxy.held = True
        access = {"server": f"https://127.0.0.1:{proxy.port}", "authority": made.authority.read_bytes()}
        yield proxy, access, api


NAMESPACE = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"late"}}'


def test_write_is_not_sent_when_leadership_is_lost_while_connecting(tmp_path: Path) -> None:
    async def ask() -> None:
        leads = True
        async with (
            held_back(tmp_path) as (proxy, access, _),
            Session(Access(**access), ONCE, may_write=lambda: leads) as session,
        ):
            writing = asyncio.ensure_future(session.call("POST", "/api/v1/namespaces", body=NAMESPACE))
            while not proxy.connections:
                await asyncio.sleep(0.01)
            leads = False
            proxy.held = False
            with pytest.raises(UnreachableError, match="is not the leader") as refused:
                await asyncio.wait_for(writing, 10)
            assert not refused.value.sent
            assert b'"late"' not in await session.call("GET", "/api/v1/namespaces")  # reading is for everybody

    asyncio.run(ask())


def test_connecting_has_its_own_time_and_the_handshake_is_part_of_it(tmp_path: Path) -> None:
    async def ask() -> None:
        async with (
            held_back(tmp_path) as (_, access, _),
            Session(Access(**access), Limits(attempts=1, connect=0.2)) as session,
        ):
            with pytest.raises(UnreachableError) as lost:
                await asyncio.wait_for(session.call("POST", "/api/v1/namespaces", body=NAMESPACE), 10)
            assert not lost.value.sent

    asyncio.run(ask())
