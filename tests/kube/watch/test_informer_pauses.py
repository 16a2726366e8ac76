"""How long an informer waits, and what it does then, when lists are answered and watches are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from kubesim.http.connection import Request, Response
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.transport import Session
from pumice.kube.resources import Document, Resource
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer
from tests.support.scripted_server import answering

CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)
FIRST = 5
"""The revision at the beginning; each watch may bring one more."""


class Counting(Backoff):
    """Says how long the pauses would be, and makes none."""

    def __init__(self) -> None:
        super().__init__(1.0, 1000.0)
        self.pauses: list[float] = []

    def next(self, least: float = 0.0) -> float:
        self.pauses.append(super().next(least))
        return 0.0


def followed(watch: Callable[[int], Response], watches: int) -> tuple[list[str], list[float]]:
    """What an informer asks for until that many watches were begun, and its pauses; ``watch`` gives the nth of them."""
    asked: list[str] = []
    done = asyncio.Event()

    async def handle(request: Request) -> Response:
        if request.path.endswith("/namespaces/kube-system"):
            return Response(b"{}", 404)
        if "watch" not in request.query:
            revision = FIRST + asked.count("watch")
            asked.append("one" if request.query.get("limit") == "1" else "list")
            return Response(msgspec.json.encode({"metadata": {"resourceVersion": str(revision)}, "items": []}))
        asked.append("watch")
        count = asked.count("watch")
        if count == watches:
            done.set()
        return watch(count)

    async def run() -> list[float]:
        backoff = Counting()
        async with answering(handle) as address, Session(Access(address)) as session:
            informer = Informer(Api(session), CONFIG_MAPS, ChangeQueue(), backoff=backoff)
            task = asyncio.create_task(informer.run())
            await asyncio.wait_for(done.wait(), 20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return backoff.pauses[: watches - 1]

    pauses = asyncio.run(run())
    return asked, pauses


def test_lists_that_no_watch_can_follow_become_rare() -> None:
    # Pauses of 1, 2, 4, 8 and 16 s, each shortened by up to a half: none is shorter than the one before it.
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    asked, pauses = followed(lambda _: Response(msgspec.json.encode(status), 410), watches=6)
    assert asked == ["list", "watch"] * 6
    assert pauses == sorted(pauses) and pauses[-1] >= 8


async def _broken() -> AsyncIterator[bytes]:
    yield b'{"type":"MODI'
    raise ConnectionError("torn")


def test_informer_lists_after_two_broken_watches_in_a_row() -> None:
    # A watch that breaks goes on where it was; the second in a row that brought nothing is taken for hopeless.
    asked, _ = followed(lambda _: Response(stream=_broken()), watches=4)
    assert asked == ["list", "watch", "one", "watch", "list", "watch", "one", "watch"]


def test_watches_that_bring_something_go_on_without_a_list() -> None:
    def brings(count: int) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            about = {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": str(FIRST + count)}
            yield msgspec.json.encode({"type": "ADDED" if count == 1 else "MODIFIED", "object": {"metadata": about}})
            yield b"\n"
            raise ConnectionError("torn")

        return Response(stream=chunks())

    asked, _ = followed(brings, watches=4)
    assert asked == ["list", *["watch", "one"] * 3, "watch"]


def test_events_gather_between_two_looks_at_a_watch_and_none_is_lost() -> None:
    sent, paused = asyncio.Event(), asyncio.Event()

    async def stream() -> AsyncIterator[bytes]:
        def line(revision: int) -> bytes:
            about = {"name": f"c{revision}", "resourceVersion": str(revision), "uid": f"u{revision}"}
            return msgspec.json.encode({"type": "ADDED", "object": {"metadata": about}}) + b"\n"

        yield line(FIRST + 1)
        await paused.wait()
        for revision in range(FIRST + 2, FIRST + 6):  # each by itself, while the informer pauses
            yield line(revision)
            await asyncio.sleep(0)
        sent.set()
        await asyncio.Event().wait()

    async def handle(request: Request) -> Response:
        if request.path.endswith("/namespaces/kube-system"):
            return Response(b"{}", 404)
        if "watch" in request.query:
            return Response(stream=stream())
        return Response(msgspec.json.encode({"metadata": {"resourceVersion": str(FIRST)}, "items": []}))

    async def run() -> tuple[list[str], int]:
        pauses = 0

        def pause() -> float:
            nonlocal pauses
            pauses += 1
            paused.set()
            return 0.2 if pauses == 1 else 0.0

        feed, keys = ChangeQueue(), list[str]()
        async with answering(handle) as address, Session(Access(address)) as session:
            informer = Informer(Api(session), CONFIG_MAPS, feed, pause=pause)
            task = asyncio.create_task(informer.run())
            async with asyncio.timeout(20):
                while len(keys) < 5:
                    keys += [change.key for change in await feed.wait_and_drain()]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert sent.is_set()
        return keys, pauses

    keys, pauses = asyncio.run(run())
    assert keys == [f"c{revision}" for revision in range(FIRST + 1, FIRST + 6)]
    assert pauses <= 5  # one for each look, however many events it finds
