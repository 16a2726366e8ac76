"""Controller references: which children an owner adopts and releases, and when it is reconciled."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from kubesim.controllers.controller_refs import (
    ControllerRefs,
    add_controller_ref,
    controller_of,
    is_being_deleted,
    new_controller_ref,
    remove_controller_ref,
)
from kubesim.storage import Change
from tests.support.apiserver import memory_api
from tests.support.workloads import REPLICA_SETS, replica_set, template


@asynccontextmanager
async def claims():
    async with memory_api() as api:
        woken: list[str] = []
        found = ControllerRefs(api, "pods", "apps/v1", "ReplicaSet", woken.append)
        yield api, found, woken


def pod(name, app="web", **about):
    whole = template(app=app)
    return {"metadata": {"name": name, **whole["metadata"], **about}, "spec": whole["spec"]}


async def make_set(api, name="s", app="web"):
    selector = {"matchLabels": {"app": app}}
    made = {"metadata": {"name": name}, "spec": {"replicas": 0, "selector": selector, "template": template(app=app)}}
    return await api.create(REPLICA_SETS, "default", made)


async def hear(api, found):
    """Everything that there is, as the follower would tell it."""
    async for batch in api.follow("pods"):
        for change in batch:
            found.on_child_change(change)
        if not batch:
            return


async def claim(found, owner):
    uid = owner["metadata"]["uid"]
    return await found.claim_children(
        owner, adopt=lambda one: add_controller_ref(one, owner), release=lambda one: remove_controller_ref(one, uid)
    )


def names(children):
    return [one["metadata"]["name"] for one in children]


def key_of(owner):
    return f"default/{owner['metadata']['name']}/{owner['metadata']['uid']}"


def change_of(owner, *, deleted=False):
    about = owner["metadata"]
    key = f"{REPLICA_SETS}/{about['namespace']}/{about['name']}"
    return Change(int(about["resourceVersion"]), key, json.dumps(owner).encode(), deleted=deleted)


def test_matching_orphan_is_adopted():
    async def scenario():
        async with claims() as (api, found, woken):
            await api.create("pods", "default", pod("early"))
            await api.create("pods", "default", pod("other", app="db"))
            owner = await make_set(api)
            found.on_owner_change(change_of(owner))
            assert woken == [key_of(owner)] * 2  # for itself, and for the pod that it may have
            children = await claim(found, owner)
            assert names(children) == ["early"]
            assert controller_of(api.read("pods", "default", "early"))["uid"] == owner["metadata"]["uid"]
            assert controller_of(api.read("pods", "default", "other")) is None
            await api.create("pods", "default", pod("late"))
            await hear(api, found)
            assert names(await claim(found, owner)) == ["early", "late"]

    asyncio.run(scenario())


def test_object_of_another_controller_or_being_deleted_is_not_adopted():
    async def scenario():
        async with claims() as (api, found, _):
            owner, other = await make_set(api), await make_set(api, "other")
            taken = pod("taken", ownerReferences=[new_controller_ref(other)])
            await api.create("pods", "default", taken)
            await api.create("pods", "default", pod("leaving", finalizers=["example.com/x"]))
            await api.delete("pods", "default", "leaving", grace=0)
            found.on_owner_change(change_of(owner))
            await hear(api, found)
            return await claim(found, owner)

    assert asyncio.run(scenario()) == []


def test_owner_being_deleted_neither_adopts_nor_releases():
    async def scenario():
        async with claims() as (api, found, _):
            owner = await make_set(api)
            await api.create("pods", "default", pod("mine", app="db", ownerReferences=[new_controller_ref(owner)]))
            await api.create("pods", "default", pod("stray"))
            found.on_owner_change(change_of(owner))
            await hear(api, found)
            leaving = {**owner, "metadata": {**owner["metadata"], "deletionTimestamp": "2024-05-01T00:00:00Z"}}
            assert is_being_deleted(leaving)
            await claim(found, leaving)
            return [controller_of(one) is not None for one in api.list("pods", "default")]

    assert asyncio.run(scenario()) == [True, False]  # mine, stray


def test_child_that_no_longer_matches_is_released():
    async def scenario():
        async with claims() as (api, found, woken):
            owner = await make_set(api)
            await api.create("pods", "default", pod("mine", ownerReferences=[new_controller_ref(owner)]))
            found.on_owner_change(change_of(owner))
            await hear(api, found)
            assert names(await claim(found, owner)) == ["mine"]
            await api.modify("pods", "default", "mine", lambda one: one["metadata"]["labels"].update(app="free"))
            woken.clear()
            await hear(api, found)
            assert woken == [key_of(owner)]
            assert await claim(found, owner) == []
            assert controller_of(api.read("pods", "default", "mine")) is None
            assert await claim(found, owner) == []  # and stays so

    asyncio.run(scenario())


def test_a_later_owner_of_the_same_name_is_another():
    async def scenario():
        async with claims() as (api, found, woken):
            owner = await make_set(api)
            await api.create("pods", "default", pod("mine", ownerReferences=[new_controller_ref(owner)]))
            await hear(api, found)
            assert woken == [key_of(owner)]
            await api.delete(REPLICA_SETS, "default", "s")
            found.on_owner_change(change_of(owner, deleted=True))
            again = await make_set(api)
            found.on_owner_change(change_of(again))
            assert await claim(found, again) == []
            return names(found.children_of(owner["metadata"]["uid"]))

    assert asyncio.run(scenario()) == ["mine"]  # until somebody collects it


def test_created_child_counts_before_its_watch_event():
    async def scenario():
        async with claims() as (api, found, _):
            owner = await make_set(api)
            await api.create("pods", "default", pod("mine", ownerReferences=[new_controller_ref(owner)]))
            found.add_child(owner["metadata"]["uid"], "pods/default/mine")
            assert names(await claim(found, owner)) == ["mine"]
            await api.delete("pods", "default", "mine", grace=0)
            assert await claim(found, owner) == []
            await api.create("pods", "default", pod("mine", app="db"))  # the name again, for something else
            assert await claim(found, owner) == []

    asyncio.run(scenario())


def test_controller_references():
    owner = replica_set("s")
    child = {"metadata": {"name": "p", "ownerReferences": [{"uid": "x", "kind": "Thing"}]}}
    add_controller_ref(child, owner)
    assert controller_of(child) == new_controller_ref(owner)
    remove_controller_ref(child, "uid-of-s")
    assert child["metadata"]["ownerReferences"] == [{"uid": "x", "kind": "Thing"}]
