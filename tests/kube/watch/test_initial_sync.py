from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.kube.watch.initial_sync import initial_changes


def test_first_lists_that_fill_the_queue_do_not_keep_other_informers_from_reporting() -> None:
    async def scenario() -> list[str]:
        feed, informers = ChangeQueue(long=2), [SimpleNamespace(synced=asyncio.Event()) for _ in range(3)]

        async def report(number: int) -> None:
            await feed.wait_for_space()
            for each in range(3):  # longer than the queue
                feed.put(Change("pods", f"{number}-{each}", "", "1", None, {}))
            informers[number].synced.set()

        reports = [asyncio.create_task(report(number)) for number in range(3)]
        taken: list[str] = []
        async with asyncio.timeout(30):
            async for changes in initial_changes(feed, cast("list[Informer[Any]]", informers)):
                taken += [change.key for change in changes]
        await asyncio.gather(*reports)
        assert len(feed) == 0
        return taken

    taken = asyncio.run(scenario())
    assert sorted(taken) == [f"{number}-{each}" for number in range(3) for each in range(3)]


def test_informers_without_objects_end_the_first_lists() -> None:
    async def scenario() -> list[list[Change[Any]]]:
        informer = SimpleNamespace(synced=asyncio.Event())
        informer.synced.set()
        async with asyncio.timeout(30):
            return [batch async for batch in initial_changes(ChangeQueue(), cast("list[Informer[Any]]", [informer]))]

    assert not any(asyncio.run(scenario()))
