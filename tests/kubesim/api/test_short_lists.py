"""Lists that are decoded once show every write all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from unittest import mock

from kubesim.api.client import InProcessClient
from kubesim.api.short_lists import MOST_LISTS, MOST_OBJECTS, ShortLists
from tests.support.apiserver import memory_api

CLASSES = "priorityclasses.scheduling.k8s.io"


def ask(check: Callable[[InProcessClient, ShortLists], Awaitable[None]]) -> None:
    async def run() -> None:
        async with memory_api() as api:
            await check(api, ShortLists(api.store))

    asyncio.run(run())


def names(lists: ShortLists) -> list[str]:
    return [found["metadata"]["name"] for found in lists.latest(f"{CLASSES}/")]


async def create(api: InProcessClient, name: str) -> None:
    await api.create(CLASSES, "", {"metadata": {"name": name}, "value": 1})


def test_a_list_is_decoded_again_after_a_write_of_its_resource_alone() -> None:
    async def check(api: InProcessClient, lists: ShortLists) -> None:
        await create(api, "a")
        first = lists.latest(f"{CLASSES}/")
        await api.create("configmaps", "default", {"metadata": {"name": "other"}})
        assert lists.latest(f"{CLASSES}/") is first
        await create(api, "b")
        assert names(lists) == ["a", "b"]
        await api.delete(CLASSES, "", "a")
        assert names(lists) == ["b"]

    ask(check)


def test_a_write_shows_before_it_is_on_disk_and_no_longer_when_it_has_failed() -> None:
    async def check(api: InProcessClient, lists: ShortLists) -> None:
        await create(api, "a")
        with mock.patch.object(api.store._log, "append", side_effect=OSError("no space")):
            failing = asyncio.create_task(create(api, "b"))
            await asyncio.sleep(0)
            assert names(lists) == ["a", "b"]
            await asyncio.gather(failing, return_exceptions=True)
        assert names(lists) == ["a"]

    ask(check)


def test_neither_long_lists_nor_many_are_kept() -> None:
    async def check(api: InProcessClient, lists: ShortLists) -> None:
        for number in range(MOST_OBJECTS + 1):
            await create(api, f"c{number}")
        assert lists.latest(f"{CLASSES}/") is not lists.latest(f"{CLASSES}/")
        for number in range(3 * MOST_LISTS):
            lists.latest(f"configmaps/n{number}/")
        assert len(lists._kept) <= MOST_LISTS

    ask(check)
