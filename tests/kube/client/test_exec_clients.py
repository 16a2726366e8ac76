"""Both clients with credentials from a command, against the embedded API, while the credentials expire."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kubebase.timestamps import stamp
from kubesim.api.client import InProcessClient as Behind
from kubesim.http.tls import load_or_issue_certificates
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, CredentialError
from pumice.kube.client.exec_plugin import RETRY_SECONDS, ExecConfig, ExecPlugin
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.sync_client import Client
from pumice.kube.client.transport import Limits, Session
from pumice.kube.resources import CONFIG_MAPS
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.kube.watch.sync_watch import CollectionWatch
from tests.support.apiserver import memory_api
from tests.support.exec_stub import V1, ExecStub
from tests.support.guarded_server import Guard
from tests.support.served_api import served
from tests.support.unsteady_proxy import unsteady

pytestmark = pytest.mark.process

MAPS = CONFIG_MAPS.path("default")
NODES = "/api/v1/nodes"


class World:
    """An API with a guard, and a command whose tokens the guard knows."""

    def __init__(self, folder: Path) -> None:
        self.stub = ExecStub(folder / "plugin")
        self.guard = Guard()
        self.now = 1_000_000.0
        config = ExecConfig("config: users[a].user.exec", str(self.stub.command), V1)
        self.plugin = ExecPlugin(config, clock=self._time, monotonic=self._time)

    def _time(self) -> float:
        return self.now

    def issue(self, token: str, life: float = 1000.0) -> None:
        """The command gives this token from now on, and it alone is good."""
        self.stub.answers(token=token, expirationTimestamp=stamp(self.now + life))
        self.guard.good = {token}

    def access(self, address: str) -> Access:
        return Access(address, exec_plugin=self.plugin)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@contextlib.asynccontextmanager
async def session(world: World, limits: Limits | None = None) -> AsyncIterator[tuple[Session, Behind]]:
    async with (
        memory_api() as api,
        world.guard.serving(api) as address,
        Session(world.access(address), limits or Limits(attempts=2)) as made,
    ):
        yield made, api


def test_calls_get_a_new_token_before_the_old_one_expires(world: World) -> None:
    async def ask() -> None:
        world.issue("first")
        async with session(world) as (ours, _):
            await asyncio.gather(*(ours.call("GET", NODES) for _ in range(20)))
            world.now += 950  # the second is issued while the first is still good, but for 50 s only
            world.issue("second")
            await asyncio.gather(*(ours.call("GET", NODES) for _ in range(20)))
        assert world.guard.seen == ["first", "second"] and not world.guard.refused and len(world.stub.runs) == 2

    asyncio.run(ask())


def test_a_token_that_was_revoked_fails_no_call(world: World) -> None:
    async def ask() -> None:
        world.issue("first")
        async with session(world) as (ours, _):
            await ours.call("GET", NODES)
            world.issue("second")
            body = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"n-"}}'
            await asyncio.gather(*(ours.call("POST", "/api/v1/namespaces", body=body) for _ in range(20)))
            assert len(world.stub.runs) == 2
            world.guard.good = set()
            with pytest.raises(ApiError) as refused:
                await ours.call("GET", NODES)
            assert refused.value.code == 401 and len(world.stub.runs) == 2  # it has just been renewed
            world.now += RETRY_SECONDS
            with pytest.raises(ApiError):
                await ours.call("GET", NODES)
            assert len(world.stub.runs) == 3

    asyncio.run(ask())


def test_a_watch_that_is_refused_is_begun_again_with_another_token(world: World) -> None:
    async def ask() -> None:
        world.issue("first")
        async with session(world) as (ours, _):
            await ours.call("GET", NODES)
            world.issue("second")
            async with contextlib.aclosing(ours.lines(MAPS, {"watch": "1"}, silence=30)) as lines:
                assert await anext(lines) == []
            assert world.guard.refused == 1
            world.guard.good = set()
            world.now += RETRY_SECONDS
            with pytest.raises(ApiError) as refused:
                await anext(ours.lines(MAPS, {"watch": "1"}, silence=30))
            assert refused.value.code == 401

    asyncio.run(ask())


def test_the_loop_goes_on_while_the_command_runs(world: World) -> None:
    async def ask() -> None:
        world.issue("slow")
        world.stub.answers(token="slow", gate=True)
        async with session(world) as (ours, _):
            calls = [asyncio.create_task(ours.call("GET", NODES)) for _ in range(20)]
            while not world.stub.runs:  # this loop is the one that the calls are in
                await asyncio.sleep(0.01)
            world.stub.open_gate()
            await asyncio.gather(*calls)
        assert len(world.stub.runs) == 1

    asyncio.run(ask())


def test_a_command_that_fails_fails_calls_at_once_and_is_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        world.stub.answers(code=3, stderr="sign in first")
        async with session(world, Limits(attempts=5, first_pause=1000.0, longest_pause=1000.0)) as (ours, _):
            with pytest.raises(CredentialError, match="failed with exit code 3\nsign in first"):
                await asyncio.wait_for(ours.call("GET", NODES), 30)
            with pytest.raises(CredentialError, match="sign in first"):
                await asyncio.wait_for(ours.call("POST", NODES), 30)
            assert [record.message.count("sign in first") for record in caplog.records] == [1]
            world.now += RETRY_SECONDS
            world.issue("first")
            await ours.call("GET", NODES)

    asyncio.run(ask())


def a_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_an_informer_goes_on_when_its_token_expires_or_is_revoked_or_the_command_fails(world: World) -> None:
    async def ask() -> None:
        world.issue("one")
        async with (
            memory_api() as api,
            world.guard.serving(api) as address,
            unsteady(int(address.rpartition(":")[2])) as proxy,
            Session(world.access(f"http://127.0.0.1:{proxy.port}"), Limits(attempts=1)) as ours,
            served(api) as open_port,
            Session(Access(f"http://127.0.0.1:{open_port}")) as writing,
        ):
            feed = ChangeQueue()
            informer = Informer(Api(ours), CONFIG_MAPS, feed, backoff=Backoff(0.001, 0.01))
            running = asyncio.create_task(informer.run())
            await asyncio.wait_for(informer.synced.wait(), 30)
            feed.drain()

            async def still_follows(name: str) -> None:
                world.guard.good.add("")  # whoever writes has no token
                await Api(writing).create(CONFIG_MAPS, a_map(name), "default")
                world.guard.good.discard("")
                (change,) = await asyncio.wait_for(feed.wait_and_drain(), 30)
                assert change.key == f"default/{name}"

            await still_follows("before")
            world.now += 2000  # it expires; the watch that is open goes on, the next one needs another token
            world.issue("two")
            proxy.cut()
            await still_follows("expired")
            assert not world.guard.refused
            world.issue("three")
            proxy.cut()
            await still_follows("revoked")
            world.now += 2000
            world.stub.answers(code=1, stderr="no network")
            proxy.cut()
            async with asyncio.timeout(30):
                while "no network" not in str(informer.last_error):
                    await asyncio.sleep(0.01)
            world.now += RETRY_SECONDS
            world.issue("four")
            await still_follows("command-failed")
            assert informer.lists == 1  # it has gone on where it was
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(ask())


def test_the_small_client_renews_for_reads_writes_and_watches(world: World) -> None:
    async def ask() -> None:
        world.issue("one")
        async with memory_api() as api, world.guard.serving(api) as address:
            await asyncio.to_thread(use, Client(world.access(address)))

    def use(client: Client) -> None:
        with contextlib.closing(client):
            following = CollectionWatch(client, MAPS)
            world.now += 2000
            world.issue("two")
            client.create(MAPS, a_map("a"))
            assert not world.guard.refused  # it was refreshed in time
            for token in ("three", "four", "five"):  # revoked: reads, writes and watches find out by a 401
                world.now += RETRY_SECONDS
                world.issue(token)
                if token == "three":
                    client.create(MAPS, a_map("b"))
                elif token == "four":
                    assert len(client.list(MAPS).items) == 2
                else:
                    changes = following.changes()
                    assert [next(changes).object["metadata"]["name"] for _ in range(2)] == ["a", "b"]
                    changes.close()
            world.guard.good = set()
            with pytest.raises(ApiError) as refused:
                client.get(MAPS)
            assert refused.value.code == 401

    asyncio.run(ask())


def test_the_small_client_reads_a_token_file_again(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    world.guard.good = {"old"}

    def use(address: str) -> None:
        with contextlib.closing(Client(Access(address, token="old", token_file=file))) as client:
            client.get(MAPS)
            world.guard.good = {"new"}
            file.write_text("new\n")
            client.get(MAPS)
            file.unlink()
            world.guard.good = set()
            with pytest.raises(ApiError):
                client.get(MAPS)

    async def ask() -> None:
        async with memory_api() as api, world.guard.serving(api) as address:
            await asyncio.to_thread(use, address)

    asyncio.run(ask())


def client_certificate() -> tuple[str, str]:
    """A certificate that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM).decode(), plain.decode()


def test_a_client_certificate_is_presented_and_replaced(world: World, tmp_path: Path) -> None:
    """A server that asks for a certificate of one authority, then of another: two certificates of the command."""
    made = load_or_issue_certificates(tmp_path / "server", "127.0.0.1")
    clients = [client_certificate() for _ in range(2)]
    contexts = [made.context() for _ in clients]
    for context, client in zip(contexts, clients, strict=True):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client[0])

    def use(*addresses: str) -> None:
        for address, client in zip(addresses, clients, strict=True):
            with contextlib.closing(Client(access(address))) as ours:
                supply(client)
                ours.get(NODES)
            world.now += 2000

    def access(address: str) -> Access:
        return Access(address, authority=made.authority.read_bytes(), exec_plugin=world.plugin)

    def supply(client: tuple[str, str]) -> None:
        certificate, key = client
        expires = stamp(world.now + 1000)
        world.stub.answers(clientCertificateData=certificate, clientKeyData=key, expirationTimestamp=expires)

    async def ask() -> None:
        async with (
            memory_api() as api,
            served(api, tls=contexts[0]) as first,
            served(api, tls=contexts[1]) as second,
            unsteady(first) as proxy,
            Session(access(f"https://127.0.0.1:{proxy.port}"), Limits(attempts=3, first_pause=0.001)) as ours,
        ):
            supply(clients[0])
            assert await ours.call("GET", NODES)
            proxy.upstream = second
            proxy.cut()
            world.now += 2000
            supply(clients[1])
            assert await ours.call("GET", NODES)
            world.now += 2000
            await asyncio.to_thread(use, f"https://127.0.0.1:{first}", f"https://127.0.0.1:{second}")

    asyncio.run(ask())
