"""Get and list: what is chosen, from which revision, in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.client import InProcessClient
from kubesim.api.get_list import ListResult
from kubesim.api.requests import ObjectSelection, ReadOptions, Target, parse_read_options, parse_selection
from kubesim.api.status import ApiError
from tests.support.apiserver import memory_api


def ask(check: Callable[[InProcessClient, Target], Awaitable[None]], count: int = 7) -> None:
    async def run() -> None:
        async with memory_api() as api:
            for number in range(count):
                labels = {"odd": str(number % 2)}
                await api.create("configmaps", "default", {"metadata": {"name": f"c{number}", "labels": labels}})
            resource = api.registry.stored("configmaps")
            assert resource is not None
            await check(api, Target(resource, "default"))

    asyncio.run(run())


def names(listing: ListResult) -> list[str]:
    return [record.key.rpartition("/")[2] for record in listing.records]


@given(st.integers(1, 8), st.sampled_from(["", "odd=1", "odd=2", "odd"]))
def test_paginated_list_is_consistent_despite_writes(limit: int, selector: str) -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        chosen = parse_selection(aim.resource, {"labelSelector": selector})
        whole = names(api.reads.list(aim, chosen, ReadOptions()))
        found: list[str] = []
        token, revisions = "", set()
        while True:
            when = parse_read_options(aim, {"limit": str(limit)} | ({"continue": token} if token else {}), watch=False)
            page = api.reads.list(aim, chosen, when)
            assert len(page.records) <= limit
            found += names(page)
            revisions.add(page.revision)
            # What comes and goes meanwhile belongs to later revisions.
            await api.create("configmaps", "default", {"metadata": {"generateName": "c3-", "labels": {"odd": "1"}}})
            await api.delete("configmaps", "default", "c5")
            token = page.token
            if not token:
                break
        assert found == whole
        assert len(revisions) == 1

    ask(check)


def test_remaining_item_count_is_absent_with_selectors() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        page = api.reads.list(aim, ObjectSelection(), ReadOptions(limit=3))
        assert (names(page), page.remaining) == (["c0", "c1", "c2"], 4)
        chosen = parse_selection(aim.resource, {"labelSelector": "odd=1"})
        page = api.reads.list(aim, chosen, ReadOptions(limit=2))
        assert (names(page), page.remaining) == (["c1", "c3"], None)
        assert page.token

    ask(check)


def test_metadata_name_selector_combines_with_other_selectors() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        for query, found in (
            ({"fieldSelector": "metadata.name=c3"}, ["c3"]),
            ({"fieldSelector": "metadata.name=c3", "labelSelector": "odd=0"}, []),
            ({"fieldSelector": "metadata.name=c3,metadata.name=c4"}, []),
            ({"fieldSelector": "metadata.name=nobody"}, []),
            ({"fieldSelector": "metadata.name!=c3"}, ["c0", "c1", "c2", "c4", "c5", "c6"]),
        ):
            assert names(api.reads.list(aim, parse_selection(aim.resource, query), ReadOptions())) == found
        everywhere = Target(aim.resource)
        chosen = parse_selection(aim.resource, {"fieldSelector": "metadata.name=c3"})
        assert names(api.reads.list(everywhere, chosen, ReadOptions())) == ["c3"]

    ask(check)


def test_list_at_older_revision_until_compaction() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        before = api.store.revision
        await api.delete("configmaps", "default", "c0")
        exact = parse_read_options(aim, {"resourceVersion": str(before), "resourceVersionMatch": "Exact"}, watch=False)
        assert names(api.reads.list(aim, ObjectSelection(), exact))[0] == "c0"
        newer = parse_read_options(aim, {"resourceVersion": str(before)}, watch=False)
        assert names(api.reads.list(aim, ObjectSelection(), newer))[0] == "c1"
        await api.store.compact(api.store.revision)
        with pytest.raises(ApiError) as refused:
            api.reads.list(aim, ObjectSelection(), exact)
        assert (refused.value.code, refused.value.reason) == (410, "Expired")

    ask(check)


def test_expired_continue_token_carries_a_new_token() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        page = api.reads.list(aim, ObjectSelection(), ReadOptions(limit=3))
        await api.delete("configmaps", "default", "c4")
        await api.store.compact(api.store.revision)
        with pytest.raises(ApiError) as refused:
            api.reads.list(aim, ObjectSelection(), parse_read_options(aim, {"continue": page.token}, watch=False))
        assert refused.value.code == 410
        rest = parse_read_options(aim, {"continue": refused.value.status()["metadata"]["continue"]}, watch=False)
        assert names(api.reads.list(aim, ObjectSelection(), rest)) == ["c3", "c5", "c6"]

    ask(check)


def test_missing_object_is_not_found() -> None:
    async def check(api: InProcessClient, aim: Target) -> None:
        with pytest.raises(ApiError) as refused:
            api.reads.get(Target(aim.resource, "default", "nobody"))
        assert refused.value.message == 'configmaps "nobody" not found'
        with pytest.raises(ApiError) as refused:
            api.reads.get(Target(aim.resource, "default", "c1"), revision=10**6)
        assert refused.value.code == 504

    ask(check)
