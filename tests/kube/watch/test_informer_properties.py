"""An informer behind a wire that is cut, slowed and stalled at random, on a server that forgets and restarts at random.

Whatever happens: its changes, applied in order to nothing, give its copy; no object goes back to an older state; every
state it reports is one that was written; every object that went away, and that it had reported, it reports as gone; and
in the end it has exactly what the server has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import aiohttp
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from benchmarks import kubernetes
from kubesim.storage import store
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.transport import Limits, Session
from pumice.kube.resources import NAMESPACES, Document, Resource
from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer
from tests.support.apiserver import memory_api
from tests.support.served_api import served
from tests.support.unsteady_proxy import Proxy, unsteady

CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)
NAMES = ("a", "b", "c", "d")
COLOURS = ("red", "blue")
HASTY = Limits(attempts=2, first_pause=0.001, longest_pause=0.01, timeout=0.25)
PATIENCE = 60.0  # seconds until it must have caught up

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(COLOURS)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(COLOURS)),  # deleted and made anew
        st.tuples(st.just("compact")),
        st.tuples(st.just("lose sight")),
        st.tuples(st.just("regain sight")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("cut")),
        st.tuples(st.just("cut after"), st.integers(0, 3000)),
        st.tuples(st.just("refuse"), st.integers(1, 4)),
        st.tuples(st.just("delay"), st.floats(0, 0.01)),
        st.tuples(st.just("stall")),
        st.tuples(st.just("pause"), st.floats(0, 0.01)),
        st.tuples(st.just("catch up")),
    ),
    max_size=40,
)

# It misses things that the server has forgotten when it comes back.
MISSED = [("write", "a", "red"), ("write", "b", "red"), ("catch up",), ("lose sight",), ("delete", "a")]
MISSED += [("replace", "b", "red"), ("write", "c", "blue"), ("regain sight",)]


class Server:
    """What the script does to a server; a real one neither forgets nor restarts on demand."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.port = urlsplit(access.server).port or 0

    async def compact(self) -> None:
        pass

    async def restart(self) -> None:
        pass


class Embedded(Server):
    def __init__(self, api: Any, stack: contextlib.AsyncExitStack, port: int) -> None:
        super().__init__(Access(f"http://127.0.0.1:{port}"))
        self._api = api
        self._stack = stack

    async def compact(self) -> None:
        await self._api.store.compact(self._api.store.revision)

    async def restart(self) -> None:
        await self._stack.aclose()
        await self._stack.enter_async_context(served(self._api, self.port))


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[Server]:
    async with contextlib.AsyncExitStack() as outer, contextlib.AsyncExitStack() as stack:
        # It keeps the latest changes in memory whatever is compacted: only few of them, or it would never forget.
        with mock.patch.object(store, "RECENT_CHANGES", 2):
            api = await outer.enter_async_context(memory_api())
        port = await stack.enter_async_context(served(api))
        yield Embedded(api, stack, port)


class Author:
    """Writes config maps, on a wire of its own, and remembers all that was ever there."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.there: dict[str, Document] = {}
        self._number = 0
        self.written: dict[tuple[str, str], Document] = {}  # every state by key and resourceVersion
        self.gone: set[str] = set()  # uids

    async def write(self, name: str, colour: str) -> Document:
        self._number += 1
        about: Document = {"name": name, "namespace": self._namespace, "labels": {"colour": colour}}
        new = {"metadata": about, "data": {"n": str(self._number)}}
        found = await self._insist(name, new)
        self.there[name] = found
        self.written[f"{self._namespace}/{name}", found["metadata"]["resourceVersion"]] = found
        return found

    async def _insist(self, name: str, new: Document) -> Document:
        """Write it; if the server restarts meanwhile, look whether that was before or after."""
        try:
            verb = self._api.update if name in self.there else self._api.create
            return await verb(CONFIG_MAPS, new)
        except UnreachableError:
            with contextlib.suppress(ApiError):
                found = await self._api.get(CONFIG_MAPS, name, self._namespace)
                if found["data"] == new["data"]:
                    return found
            return await self._insist(name, new)

    async def delete(self, name: str) -> None:
        found = self.there.pop(name, None)
        if found is not None:
            uid = found["metadata"]["uid"]
            try:
                await self._api.delete(CONFIG_MAPS, name, self._namespace, uid=uid)
            except UnreachableError:
                with contextlib.suppress(ApiError):  # it is gone already
                    await self._api.delete(CONFIG_MAPS, name, self._namespace, uid=uid)
            self.gone.add(uid)


def check(changes: list[Change[Document]], author: Author, selected: Callable[[Document], bool]) -> dict[str, Document]:
    """Every change follows from those before it and from what was written; what they come to."""
    copy: dict[str, Document] = {}
    newest: dict[str, int] = {}
    ended: set[str] = set()
    for change in changes:
        assert change.resource == "configmaps"
        assert copy.get(change.key) == change.old, "a change of something that it did not report"
        assert int(change.revision) >= newest.get(change.key, 0), "time went backwards"
        newest[change.key] = int(change.revision)
        assert change.uid not in ended, "something came back that was gone"
        if change.new is None:
            assert change.old is not None and change.old["metadata"]["uid"] == change.uid
            ended.add(change.uid)
            del copy[change.key]
        else:
            assert change.new == author.written[change.key, change.revision], "a state that nobody wrote"
            assert change.new["metadata"]["uid"] == change.uid
            assert change.old is None or change.old["metadata"]["uid"] == change.uid, "two objects taken for one"
            assert change.old is None or change.old["metadata"]["resourceVersion"] != change.revision
            copy[change.key] = change.new
    for uid in ended - author.gone:  # still there, so it must have left the selection for a time
        states = [state for state in author.written.values() if state["metadata"]["uid"] == uid]
        assert not all(map(selected, states)), "reported as gone, and never was"
    return copy


async def live(server: Server, namespace: str, script: list[Any], colour: str, *, fresh: bool = True) -> int:
    """Carry the script out; how often the informer had to list."""
    async with (
        unsteady(server.port) as proxy,
        Session(server.access) as steady,
        Session(Access(**_at(server.access, proxy.port)), HASTY) as shaky,
    ):
        api = Api(steady)
        if fresh:
            await api.create(NAMESPACES.raw, {"metadata": {"name": namespace}})
        author, feed = Author(api, namespace), ChangeQueue(long=3)
        choice = ListOptions(namespace, f"colour={colour}" if colour else "")
        informer = Informer(Api(shaky), CONFIG_MAPS, feed, choice, backoff=Backoff(0.001, 0.02), silence=0.25)

        def selected(state: Document) -> bool:
            return not colour or state["metadata"]["labels"]["colour"] == colour

        changes: list[Change[Document]] = []
        work = [asyncio.create_task(informer.run()), asyncio.create_task(_collect(feed, changes))]
        try:
            await asyncio.wait_for(informer.synced.wait(), PATIENCE)
            for step in script:
                if step == ("catch up",):
                    await _caught_up(informer, author, selected)
                else:
                    await _do(step, author, server, proxy)
            proxy.heal()
            last = await author.write("end", colour or COLOURS[0])
            await asyncio.wait_for(_reached(informer, f"{namespace}/end", last), PATIENCE)
            await asyncio.sleep(0)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        changes += feed.drain()

        copy = check(changes, author, selected)
        listed = await api.list(CONFIG_MAPS, choice)
        assert copy == {f"{namespace}/{found['metadata']['name']}": found for found in listed.items}
        assert {key: known.object for key, known in informer.cached.items()} == copy
        assert not author.gone & {known.uid for known in informer.cached.values()}, "a deletion was missed"
        return informer.lists


def _at(access: Access, port: int) -> dict[str, Any]:
    scheme = urlsplit(access.server).scheme
    return {"server": f"{scheme}://127.0.0.1:{port}", "token": access.token, "verify": access.verify}


async def _do(step: Any, author: Author, server: Server, proxy: Proxy) -> None:
    match step:
        case ("write", name, colour):
            await author.write(name, colour)
        case ("delete", name):
            await author.delete(name)
        case ("replace", name, colour):
            await author.delete(name)
            await author.write(name, colour)
        case ("compact",):
            await server.compact()
        case ("restart",):
            await server.restart()
        case ("cut",):
            proxy.cut()
        case ("cut after", size):
            proxy.allowance = size
        case ("lose sight",):
            proxy.refusals = 1_000_000
            proxy.cut()
        case ("regain sight",):
            await server.compact()
            proxy.refusals = 0
        case ("refuse", count):
            proxy.refusals = count
        case ("delay", seconds):
            proxy.delay = seconds
        case ("stall",):
            proxy.stall()
        case ("pause", seconds):
            await asyncio.sleep(seconds)


async def _collect(feed: ChangeQueue, changes: list[Change[Document]]) -> None:
    async for batch in feed:
        changes += batch


async def _reached(informer: Informer[Document], key: str, state: Document) -> None:
    while key not in informer.cached or informer.cached[key].revision != state["metadata"]["resourceVersion"]:
        await asyncio.sleep(0.001)


async def _caught_up(informer: Informer[Document], author: Author, selected: Callable[[Document], bool]) -> None:
    """Give it the time to see everything, but not for long: it may have no chance to."""
    there = {state["metadata"]["uid"] for state in author.there.values() if selected(state)}
    for _ in range(50):
        if {known.uid for known in informer.cached.values()} == there:
            return
        await asyncio.sleep(0.002)


async def live_embedded(script: list[Any], colour: str) -> None:
    async with embedded() as server:
        lists = await live(server, "default", script, colour, fresh=False)
        event("listed again" if lists > 1 else "listed once")


@settings(max_examples=settings().max_examples * 2 // 3)
@example(MISSED)
@given(steps)
def test_an_informer_has_everything_in_the_end_and_was_never_wrong(script: list[Any]) -> None:
    asyncio.run(live_embedded(script, ""))


@settings(max_examples=settings().max_examples // 3)
@example(MISSED)
@given(steps)
def test_so_has_one_that_sees_a_part(script: list[Any]) -> None:
    asyncio.run(live_embedded(script, "red"))


class Real(Server):
    """A kube-apiserver, whose etcd can be told to forget. Restarting it would take too long."""

    def __init__(self, endpoint: kubernetes.Endpoint) -> None:
        super().__init__(Access(endpoint.url, token=endpoint.token, verify=False))
        command = Path(f"/proc/{endpoint.processes[1]}/cmdline").read_text().split("\0")
        self._etcd = next(a.partition("=")[2] for a in command if a.startswith("--listen-client-urls="))

    async def compact(self) -> None:
        async with Session(self.access) as session:
            revision = (await Api(session).list(CONFIG_MAPS, ListOptions("default"))).revision
        order = {"revision": revision, "physical": True}
        async with aiohttp.ClientSession() as etcd, etcd.post(f"{self._etcd}/v3/kv/compaction", json=order) as answer:
            assert answer.status == 200 or "compacted" in await answer.text()


@pytest.mark.kube
@pytest.mark.parametrize("cached", [True, False], ids=["as it comes", "straight from etcd"])
def test_the_same_holds_on_a_real_server(cached: bool) -> None:
    lists: list[int] = []
    with kubernetes.running(fsync=False, arguments=[f"--watch-cache={cached}".lower()]) as endpoint:

        @settings(max_examples=20)
        @example(MISSED, "")
        @given(steps, st.sampled_from(["", "red"]))
        def scripts(script: list[Any], colour: str) -> None:
            lists.append(asyncio.run(live(Real(endpoint), f"n{len(lists)}", script, colour)))

        scripts()
    # From its cache the server still knows what its etcd has forgotten; without it that is missed.
    assert lists[0] == (1 if cached else 2)
