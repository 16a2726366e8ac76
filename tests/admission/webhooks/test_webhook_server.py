"""The server as an API server meets it: over TLS that its authority vouches for, ready when it knows the cluster."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from kubebase.certificates import Certificate, issue
from kubesim.server import RunningCluster
from pumice.admission import CREATE, Request, Settings
from pumice.admission.request import QUEUES
from pumice.admission.webhooks import server
from pumice.admission.webhooks.server import Webhooks
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sockets import bound
from pumice.kube.client.transport import Session
from tests.admission.webhooks.test_reviews_and_handler import review
from tests.support.admitted import queue
from tests.support.live_cluster import eventually, live


class Changing:
    """A source whose certificate a test changes; nobody publishes its authority."""

    def __init__(self) -> None:
        self.made = issue(["127.0.0.1"])

    async def current(self) -> Certificate:
        return Certificate(b"", self.made.certificate, self.made.key)


async def post(url: str, body: bytes | io.BytesIO, trusted: bytes) -> tuple[int, bytes]:
    tls = ssl.create_default_context(cadata=trusted.decode())
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=tls) as answer:
        return answer.status, await answer.read()


def serving(place: Path, check: Callable[[RunningCluster, Webhooks, Changing], Awaitable[None]]) -> None:
    async def run(running: RunningCluster) -> None:
        source = Changing()
        async with Session(Access(running.server)) as session:
            webhooks = Webhooks(Api(session), Settings(), bound("127.0.0.1", 0), source)
            assert "waiting for the initial list of" in webhooks.unhealthy_reason
            work = asyncio.create_task(webhooks.run())
            await eventually(lambda: not webhooks.unhealthy_reason)
            await check(running, webhooks, source)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            assert webhooks.url == ""

    live(place, run, count=1)


def test_webhook_server_answers_reviews_over_tls(tmp_path):
    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        wanted = review(Request(CREATE, QUEUES, queue("lost", parent="nowhere"), user="carla"))
        status, answer = await post(f"{webhooks.url}/validate", wanted, source.made.authorities)
        assert status == 200
        assert "Not found: 'nowhere'" in json.loads(answer)["response"]["status"]["message"]
        status, answer = await post(f"{webhooks.url}/mutate", wanted, source.made.authorities)
        assert (status, json.loads(answer)["response"]["patchType"]) == (200, "JSONPatch")
        assert (await post(f"{webhooks.url}/validate", b"{}", source.made.authorities))[0] == 400
        assert webhooks.answers == {("queues", CREATE, "refused"): 1, ("queues", CREATE, "filled"): 1}

    serving(tmp_path, check)


def test_a_rule_that_fails_is_no_answer(tmp_path):
    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        broken = review(Request(CREATE, QUEUES, {"metadata": {"name": "q"}, "spec": {"capability": 7}}))
        status, answer = await post(f"{webhooks.url}/validate", broken, source.made.authorities)
        assert status == 500 or not json.loads(answer)["response"]["allowed"]
        nothing = review(Request("DELETE", QUEUES, None))
        assert (await post(f"{webhooks.url}/validate", nothing, source.made.authorities))[0] == 500
        assert webhooks.answers["queues", "DELETE", "failed"] == 1

    serving(tmp_path, check)


def test_another_certificate_is_shown_to_whoever_comes_next(tmp_path):
    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        old, source.made = source.made, issue(["127.0.0.1"])
        await webhooks.ca_bundle.look()
        assert (await post(f"{webhooks.url}/validate", b"{}", source.made.authorities))[0] == 400
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(f"{webhooks.url}/validate", b"{}", old.authorities)

    serving(tmp_path, check)


def test_webhook_server_times_out_incomplete_body_with_408(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "READING", 0.5)

    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        reader, writer = await begin(webhooks, source, 1000)
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 20)
        writer.close()
        whole = review(Request(CREATE, QUEUES, queue("fine"), user="carla"))
        assert (await post(f"{webhooks.url}/validate", whole, source.made.authorities))[0] == 200

    serving(tmp_path, check)


def test_only_so_many_are_read_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "ABREAST", 2)

    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        begun = [await begin(webhooks, source, 1000) for _ in range(2)]
        await eventually(webhooks._readers.locked)
        whole = review(Request(CREATE, QUEUES, queue("fine"), user="carla"))
        asked = asyncio.create_task(post(f"{webhooks.url}/validate", whole, source.made.authorities))
        await asyncio.sleep(0.5)
        assert not asked.done(), "it waits for one of the others"
        for _, writer in begun:
            writer.close()
        assert (await asked)[0] == 200

    serving(tmp_path, check)


def test_webhook_server_rejects_oversized_body_with_413(tmp_path):
    async def check(running: RunningCluster, webhooks: Webhooks, source: Changing) -> None:
        status, _ = await post(f"{webhooks.url}/validate", io.BytesIO(bytes((8 << 20) + 1)), source.made.authorities)
        assert status == 413

    serving(tmp_path, check)


async def begin(webhooks: Webhooks, source: Changing, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A call whose body does not come."""
    tls = ssl.create_default_context(cadata=source.made.authorities.decode())
    port = int(webhooks.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(b"POST /validate HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n{" % length)
    await writer.drain()
    return reader, writer


def test_an_address_that_is_taken_is_said_at_once():
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            bound("127.0.0.1", taken.getsockname()[1])
