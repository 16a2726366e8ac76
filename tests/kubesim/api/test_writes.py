"""Create, update, delete: what is written, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

from kubesim.api.client import InProcessClient
from kubesim.api.requests import DeleteOptions, ObjectSelection, Target, WriteOptions, parse_selection
from kubesim.api.status import ApiError
from kubesim.api.writes import replace
from kubesim.http.listen import compact_periodically
from kubesim.storage import StorageFailed
from tests.support.apiserver import memory_api

MAP: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"k": "v"}}


def ask(check: Callable[[InProcessClient, Target], Awaitable[None]]) -> None:
    async def run() -> None:
        async with memory_api() as api:
            resource = api.registry.stored("configmaps")
            assert resource is not None
            await check(api, Target(resource, "default", "a"))

    asyncio.run(run())


def test_an_update_that_changes_nothing_is_no_write() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        made = await api.create("configmaps", "default", MAP)
        before = api.store.revision
        again = await api.writes.update(aim, replace(made), WriteOptions(), api.new_context(), replaces=True)
        assert again.revision == int(made["metadata"]["resourceVersion"])
        assert api.store.revision == before

    ask(check)


@pytest.mark.parametrize(
    "write",
    [
        lambda api, aim: api.create("configmaps", "default", MAP),
        lambda api, aim: api.create("configmaps", "nowhere", MAP),
        lambda api, aim: api.create("configmaps", "default", {"metadata": {"name": "B"}}),
        lambda api, aim: api.create("configmaps", "default", {"metadata": {"name": "b"}, "data": {"k": 1}}),
        lambda api, aim: api.writes.update(
            aim,
            replace({"metadata": {"name": "a", "resourceVersion": "1"}}),
            WriteOptions(),
            api.new_context(),
            replaces=True,
        ),
        lambda api, aim: api.writes.delete(aim, DeleteOptions(uid="another"), api.new_context()),
        lambda api, aim: api.writes.delete(
            Target(aim.resource, "default", "nobody"), DeleteOptions(), api.new_context()
        ),
    ],
)
def test_a_refusal_leaves_everything_as_it_is(write: Callable[[InProcessClient, Target], Awaitable[object]]) -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        await api.create("configmaps", "default", MAP)
        before = api.store.revision
        with pytest.raises(ApiError):
            await write(api, aim)
        assert api.store.revision == before

    ask(check)


def test_parallel_creates_of_one_name_succeed_once() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        tried = [api.create("configmaps", "default", MAP) for _ in range(20)]
        answers = await asyncio.gather(*tried, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, ApiError)]
        assert [error.reason for error in refused] == ["AlreadyExists"] * 19
        # An answer rests on what is on disk: whoever was refused can read what was there before.
        assert api.store.get(aim.key) is not None

    ask(check)


def test_parallel_updates_lose_no_edit() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        await api.create("configmaps", "default", {"metadata": {"name": "a"}, "data": {"n": "0"}})

        def more(found: dict[str, Any]) -> None:
            found["data"]["n"] = str(int(found["data"]["n"]) + 1)

        await asyncio.gather(*(api.modify("configmaps", "default", "a", more) for _ in range(50)))
        found = api.read("configmaps", "default", "a")
        assert found is not None and found["data"]["n"] == "50"

    ask(check)


def test_a_generation_counts_changes_of_the_spec_alone() -> None:
    async def check(api: InProcessClient, _: Target) -> None:
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}}
        await api.create("poddisruptionbudgets.policy", "default", budget)

        async def change(edit: Callable[[dict[str, Any]], None], subresource: str = "") -> int:
            found = await api.modify("poddisruptionbudgets.policy", "default", "b", edit, subresource=subresource)
            assert found is not None
            return int(found["metadata"]["generation"])

        assert await change(lambda found: found["metadata"].update(labels={"x": "y"})) == 1
        assert await change(lambda found: found.update(status={"currentHealthy": 3}), "status") == 1
        assert await change(lambda found: found["spec"].update(minAvailable=2)) == 2

    ask(check)


def test_a_finalizer_keeps_an_object_until_it_is_gone() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        await api.create("configmaps", "default", {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
        _, gone = await api.writes.delete(aim, DeleteOptions(), api.new_context())
        assert not gone
        found = api.read("configmaps", "default", "a")
        assert found is not None and found["metadata"]["deletionTimestamp"]
        before = api.store.revision
        _, gone = await api.writes.delete(aim, DeleteOptions(), api.new_context())
        assert not gone and api.store.revision == before  # it is said only once
        await api.modify("configmaps", "default", "a", lambda found: found["metadata"].pop("finalizers"))
        assert api.read("configmaps", "default", "a") is None

    ask(check)


def test_delete_collection_is_all_or_nothing() -> None:
    async def check(api: InProcessClient, _: Target) -> None:
        classes = api.registry.stored("priorityclasses.scheduling.k8s.io")
        assert classes is not None
        for name in ("mine", "yours"):
            await api.create(classes.qualified, "", {"metadata": {"name": name}, "value": 1})
        before = api.store.revision
        with pytest.raises(ApiError):  # of the second: it is no longer the one that was meant
            await api.writes.delete_collection(
                Target(classes), ObjectSelection(), DeleteOptions(uid="another"), api.new_context()
            )
        assert api.store.revision == before
        chosen = parse_selection(classes, {"fieldSelector": "metadata.name!=yours"})
        gone = await api.writes.delete_collection(Target(classes), chosen, DeleteOptions(), api.new_context())
        assert [record.key.rpartition("/")[2] for record in gone] == ["mine"]
        assert api.read(classes.qualified, "", "yours") is not None

    ask(check)


def test_dry_run_returns_the_result_and_writes_nothing() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        before = api.store.revision
        shown = await api.writes.create(
            Target(aim.resource, "default"), dict(MAP), WriteOptions(dry_run=True), api.new_context()
        )
        assert b'"uid"' in shown.value and b'"resourceVersion"' not in shown.value
        assert api.store.revision == before and api.read("configmaps", "default", "a") is None

    ask(check)


def test_write_is_checked_against_uncommitted_writes() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        under_way = asyncio.ensure_future(api.create("configmaps", "default", MAP))
        await asyncio.sleep(0)  # it has begun, and its commit is not there yet
        call = api.new_context()
        assert call.find("configmaps", "default", "a") is not None
        assert [found["metadata"]["name"] for found in call.list("configmaps", "default")] == ["a"]
        assert api.store.get(aim.key) is None  # nobody else sees it
        await under_way
        gone = asyncio.ensure_future(api.delete("configmaps", "default", "a"))
        await asyncio.sleep(0)
        assert list(call.list("configmaps", "default")) == [] and api.list("configmaps", "default")
        await gone

    ask(check)


def test_response_fails_if_a_write_it_depends_on_fails() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        made = await api.create("configmaps", "default", MAP)
        changed = {**made, "data": {"k": "w"}}
        again = {**changed, "metadata": {"name": "a"}}
        other = {"metadata": {"name": "b"}}
        with mock.patch.object(api.store._log, "append", side_effect=OSError("the disk is full")):
            answers = await asyncio.gather(
                api.writes.update(aim, replace(changed), WriteOptions(), api.new_context(), replaces=True),
                api.writes.update(aim, replace(again), WriteOptions(), api.new_context(), replaces=True),
                api.create("configmaps", "default", other),
                api.create("configmaps", "default", other),
                return_exceptions=True,
            )
        # The second update changes nothing, the second create finds the name taken: both by what was not written.
        assert [type(answer) for answer in answers] == [StorageFailed] * 4
        assert api.read("configmaps", "default", "a") == made and api.read("configmaps", "default", "b") is None
        await api.create("configmaps", "default", other)  # and it goes on

    ask(check)


def test_a_compaction_that_fails_is_tried_again() -> None:
    async def check(api: InProcessClient, _: Target) -> None:
        turns = 0

        async def pause(_: float) -> None:
            nonlocal turns
            turns += 1
            if turns == 3:
                raise asyncio.CancelledError

        with mock.patch.object(api.store, "compact", side_effect=StorageFailed("locked")) as compacting:
            with pytest.raises(asyncio.CancelledError):
                await compact_periodically(api, pause)
            assert compacting.call_count == 2

    ask(check)
