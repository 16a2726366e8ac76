"""Single situations of an informer; ``test_informer_properties`` has all of them at random."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest import mock

import msgspec

from kubesim.api import client
from kubesim.http.connection import Request, Response
from kubesim.storage import store
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.transport import Limits, Session
from pumice.kube.decode import api_types
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.resources import HYPER_NODES, NODES, PODS, Document, Resource
from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer
from tests.support.apiserver import memory_api
from tests.support.scripted_server import answering
from tests.support.served_api import served
from tests.support.unsteady_proxy import Proxy, unsteady

CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)


class World:
    """A server, a wire to it that can be cut, and a client at each end of the wire."""

    def __init__(self, behind: client.InProcessClient, proxy: Proxy, direct: Api, api: Api) -> None:
        self.behind, self.proxy, self.direct, self.api = behind, proxy, direct, api
        self.feed = ChangeQueue()
        self._tasks: list[asyncio.Task[None]] = []

    def follow(self, resource: Resource[Any], choice: ListOptions | None = None, **more: Any) -> Informer[Any]:
        quick = Backoff(0.001, 0.01)
        informer = Informer(self.api, resource, self.feed, choice or ListOptions(), backoff=quick, **more)
        self._tasks.append(asyncio.create_task(informer.run()))
        return informer

    async def write(self, name: str, text: str = "") -> Document:
        about = {"name": name, "namespace": "default"}
        return await self.direct.create(CONFIG_MAPS, {"metadata": about, "data": {"text": text}})

    async def delete(self, name: str) -> None:
        await self.direct.delete(CONFIG_MAPS, name, "default")

    @contextlib.contextmanager
    def out_of_sight(self) -> Any:
        """The informers are cut off, and find nobody until the end of the block."""
        self.proxy.refusals = 1_000_000
        self.proxy.cut()
        yield
        self.proxy.refusals = 0

    async def changes(self, count: int) -> list[Change[Any]]:
        found: list[Change[Any]] = []
        while len(found) < count:
            found += await asyncio.wait_for(self.feed.wait_and_drain(), 20)
        assert len(found) == count
        return found

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        with mock.patch.object(store, "RECENT_CHANGES", 1):  # so that what is compacted is forgotten
            behind = await stack.enter_async_context(memory_api())
        port = await stack.enter_async_context(served(behind))
        proxy = await stack.enter_async_context(unsteady(port))
        direct = await stack.enter_async_context(Session(Access(f"http://127.0.0.1:{port}")))
        limits = Limits(attempts=2, first_pause=0.001)
        through = await stack.enter_async_context(Session(Access(f"http://127.0.0.1:{proxy.port}"), limits))
        made = World(behind, proxy, Api(direct), Api(through))
        stack.push_async_callback(made.stop)
        yield made


def in_world(test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with world() as made:
            await test(made)

    asyncio.run(run())


def texts(change: Change[Any]) -> list[str]:
    return [found.data.text for found in (change.old, change.new) if found is not None]


def brief(changes: list[Change[Any]]) -> list[tuple[str, str]]:
    """Each change as ``+`` (new), ``-`` (gone) or ``~``, and the name."""
    signs = {(True, False): "+", (False, True): "-", (False, False): "~"}
    return [(signs[change.old is None, change.new is None], change.key.split("/")[-1]) for change in changes]


def test_after_a_break_it_goes_on_where_it_was() -> None:
    async def test(world: World) -> None:
        await world.write("a")
        informer = world.follow(CONFIG_MAPS, ListOptions("default"))
        assert brief(await world.changes(1)) == [("+", "a")] and informer.synced.is_set()
        with world.out_of_sight():
            await world.write("b")
            await world.delete("b")
        assert brief(await world.changes(2)) == [("+", "b"), ("-", "b")]
        await world.direct.update(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        await world.delete("a")
        assert brief(await world.changes(2)) == [("~", "a"), ("-", "a")]
        with world.out_of_sight():
            await world.write("c")
        assert brief(await world.changes(1)) == [("+", "c")]  # and nothing that it knows already
        assert informer.lists == 1

    in_world(test)


def test_an_optional_resource_that_the_server_does_not_know_is_synced() -> None:
    async def test(world: World) -> None:
        informer = world.follow(HYPER_NODES)
        await asyncio.wait_for(informer.synced.wait(), 20)
        assert list(informer.objects()) == []

    in_world(test)


def test_after_the_server_has_forgotten_only_the_difference_is_told() -> None:
    async def test(world: World) -> None:
        for name in ("same", "lost", "anew", "edited"):
            await world.write(name)
        informer = world.follow(CONFIG_MAPS, ListOptions("default"))
        first = {change.key: change for change in await world.changes(4)}
        with world.out_of_sight():
            await world.delete("lost")
            await world.delete("anew")
            await world.write("anew", "again")
            edited = {"metadata": {"name": "edited", "namespace": "default"}, "data": {"text": "2"}}
            await world.direct.update(CONFIG_MAPS, edited)
            await world.write("fresh")
            await world.write("brief")
            await world.delete("brief")  # came and went: nobody has seen it
            await world.behind.store.compact(world.behind.store.revision)
        changes = await world.changes(5)
        # First what is gone, in the order of the copy; then what there is, in the order of the list.
        assert brief(changes) == [("-", "anew"), ("-", "lost"), ("+", "anew"), ("~", "edited"), ("+", "fresh")]
        gone, new = changes[0], changes[2]
        assert gone.uid == first["default/anew"].uid != new.uid and gone.old == first["default/anew"].new
        assert informer.lists == 2 and len(informer.cached) == 4

    in_world(test)


def test_a_server_that_begins_anew_is_noticed() -> None:
    async def test(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.write(name)
        informer = world.follow(CONFIG_MAPS, ListOptions("default"))
        await world.changes(3)
        async with memory_api() as other, served(other) as port:
            world.proxy.upstream = port
            world.proxy.cut()
            # Its revisions are lower: a watch from where we were would wait for ever.
            assert brief(await world.changes(3)) == [("-", "a"), ("-", "b"), ("-", "c")]
            assert int(informer.revision) < world.behind.store.revision
            await other.create("configmaps", "default", {"metadata": {"name": "d"}})
            assert brief(await world.changes(1)) == [("+", "d")]
            await world.stop()

    in_world(test)


def test_informer_notices_new_server_with_higher_revision() -> None:
    async def test(world: World) -> None:
        await world.write("a")
        world.follow(CONFIG_MAPS, ListOptions("default"))
        await world.changes(1)
        async with memory_api() as other, served(other) as port:
            for number in range(world.behind.store.revision + 1 - other.store.revision):
                await other.create("configmaps", "default", {"metadata": {"name": f"other-{number}"}})
            assert other.store.revision > world.behind.store.revision
            world.proxy.upstream = port
            world.proxy.cut()
            told = brief(await world.changes(1 + len(other.list("configmaps", "default"))))
            assert ("-", "a") in told
            assert ("+", "other-0") in told
            await world.stop()

    in_world(test)


def test_unreadable_object_keeps_last_readable_state_until_deleted() -> None:
    async def test(world: World) -> None:
        strict: Resource[Any] = Resource("v1", "configmaps", "ConfigMap", _Strict)
        refused: list[ObjectError] = []
        await world.write("a", "1")
        world.follow(strict, ListOptions("default"), unreadable=refused.append)
        assert texts((await world.changes(1))[0]) == ["1"]
        about = {"name": "a", "namespace": "default"}
        await world.direct.update(CONFIG_MAPS, {"metadata": about, "data": {"other": "x"}})
        await world.direct.create(CONFIG_MAPS, {"metadata": {**about, "name": "b"}, "data": {"other": "x"}})
        await world.direct.update(CONFIG_MAPS, {"metadata": about, "data": {"text": "2"}})
        (change,) = await world.changes(1)
        assert texts(change) == ["1", "2"]
        assert [str(error) for error in refused] == [
            "ConfigMap/default/a: data.text: Required value",
            "ConfigMap/default/b: data.text: Required value",
        ]
        await world.delete("b")
        await world.delete("a")
        assert brief(await world.changes(1)) == [("-", "a")]

    in_world(test)


class _Text(api_types.Wire, frozen=True):
    text: str


class _Strict(api_types.Object, frozen=True):
    data: _Text = _Text("")


def test_several_informers_make_one_line() -> None:
    async def test(world: World) -> None:
        pods, nodes = world.follow(PODS), world.follow(NODES)
        await asyncio.wait_for(asyncio.gather(pods.synced.wait(), nodes.synced.wait()), 20)
        container = {"name": "c", "image": "i"}
        seen = []
        for number in range(3):
            await world.direct.create(NODES, {"metadata": {"name": f"n{number}"}})
            seen += await world.changes(1)
            pod = {"metadata": {"name": f"p{number}", "namespace": "default"}, "spec": {"containers": [container]}}
            await world.direct.create(PODS, pod)
            seen += await world.changes(1)
        assert [(change.resource, change.key) for change in seen] == [
            (resource, key) for n in range(3) for resource, key in (("nodes", f"n{n}"), ("pods", f"default/p{n}"))
        ]
        assert all(isinstance(found, api_types.Pod) for found in pods.objects()) and len(list(nodes.objects())) == 3

    in_world(test)


def test_an_informer_waits_while_nobody_takes_what_it_has() -> None:
    async def test(world: World) -> None:
        world.feed = ChangeQueue(long=2)
        informer = world.follow(CONFIG_MAPS, ListOptions("default"))
        await asyncio.wait_for(informer.synced.wait(), 20)
        for number in range(20):
            await world.write(f"m{number:02}")
            await asyncio.sleep(0.005)
        waiting = len(world.feed)
        assert 2 <= waiting < 20
        rest = await world.changes(waiting) if waiting == len(world.feed) else []
        assert brief(rest + await world.changes(20 - waiting)) == [("+", f"m{n:02}") for n in range(20)]

    in_world(test)


def test_a_resource_that_is_not_there_yet_is_waited_for() -> None:
    async def test(world: World) -> None:
        absent: Resource[Document] = Resource("example.com/v1", "things", "Thing", dict)
        informer = world.follow(absent)
        while informer.last_error is None:
            await asyncio.sleep(0.001)
        assert str(informer.last_error) == "404 Not Found" and not informer.synced.is_set()

    in_world(test)


def thing(name: str, uid: str, revision: int) -> Document:
    about = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}


def listed(revision: int, *items: Document, token: str = "") -> Response:
    about = {"resourceVersion": str(revision), "continue": token}
    return Response(msgspec.json.encode({"metadata": about, "items": items}))


def watched(*events: tuple[str, Document]) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"".join(msgspec.json.encode({"type": kind, "object": found}) + b"\n" for kind, found in events)
        await asyncio.sleep(60)

    return Response(stream=chunks())


def told(*answers: Response) -> tuple[list[tuple[str, str, str]], list[str]]:
    """What an informer makes of a server that gives these answers, and what it asks in the meantime."""
    waiting, asked, done = list(answers), [], asyncio.Event()

    async def handle(request: Request) -> Response:
        if request.path.endswith("/namespaces/kube-system"):
            return Response(b"{}", 404)
        asked.append(next((name for name in ("watch", "continue", "limit") if name in request.query), "all"))
        if not waiting:
            done.set()
            return watched()
        return waiting.pop(0)

    async def run() -> list[Change[Any]]:
        async with answering(handle) as address, Session(Access(address)) as session:
            feed = ChangeQueue()
            informer = Informer(Api(session), CONFIG_MAPS, feed, backoff=Backoff(0.001, 0.01))
            task = asyncio.create_task(informer.run())
            await asyncio.wait_for(done.wait(), 20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return feed.drain()

    changes = asyncio.run(run())
    return [(*brief([change])[0], change.uid) for change in changes], asked


def test_a_watch_that_was_refused_once_is_well_again_before_anything_happens() -> None:
    """A server that has just begun to serve a kind lists it, but says "later" to a watch."""
    status = {"kind": "Status", "code": 429, "message": "storage is (re)initializing"}
    answers = [listed(5), Response(msgspec.json.encode(status), 429), listed(5), watched()]

    async def handle(request: Request) -> Response:
        return Response(b"{}", 404) if request.path.endswith("/kube-system") else answers.pop(0)

    async def run() -> None:
        async with answering(handle) as address, Session(Access(address)) as session:
            informer = Informer(Api(session), CONFIG_MAPS, ChangeQueue(), backoff=Backoff(0.001, 0.01))
            following = asyncio.create_task(informer.run())
            troubles = set()
            async with asyncio.timeout(20):
                while answers or informer.last_error:
                    troubles.add(str(informer.last_error or ""))
                    await asyncio.sleep(0)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            assert "storage is (re)initializing" in troubles

    asyncio.run(run())


def test_a_list_that_expires_on_the_way_leaves_nothing_behind() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    gone = Response(msgspec.json.encode(status), 410)
    first, rest = listed(5, thing("a", "1", 1), thing("b", "2", 2), token="more"), listed(9, thing("b", "2", 2))
    assert told(first, gone, rest) == ([("+", "b", "2")], ["limit", "continue", "all", "watch"])


def test_a_name_with_another_uid_is_another_object() -> None:
    before, after = thing("a", "1", 1), thing("a", "2", 6)
    anew = watched(("MODIFIED", after), ("BOOKMARK", thing("", "", 4)))  # the bookmark is out of order: list again
    changes, asked = told(listed(5, before), anew, listed(7, after))
    assert changes == [("+", "a", "1"), ("-", "a", "1"), ("+", "a", "2")]
    assert asked == ["limit", "watch", "limit", "watch"]


def test_watch_event_with_old_revision_leads_to_new_list() -> None:
    old, new = thing("a", "1", 3), thing("a", "1", 5)
    changes, asked = told(listed(5, new), watched(("MODIFIED", old)), listed(6, new))
    assert changes == [("+", "a", "1")]
    assert asked == ["limit", "watch", "limit", "watch"]


def test_nonsense_is_not_believed_either() -> None:
    changes, asked = told(Response(b"<html>"), listed(5), watched(("ADDED", {"metadata": 5})), listed(6))
    assert changes == []
    assert asked == ["limit", "limit", "watch", "limit", "watch"]
