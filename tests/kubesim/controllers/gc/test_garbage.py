"""Garbage collection through the real API."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simulated import cluster, eventually, run

MAPS = "configmaps"


async def make(api, name, *owners, block=False, finalizers=()):
    """A ConfigMap that these own."""
    about = {"name": name, "finalizers": list(finalizers)}
    about["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    return await api.create(MAPS, "default", {"metadata": about})


def there(api):
    return {found["metadata"]["name"] for found in api.list(MAPS, "default")}


def test_background_deletion_removes_dependents_later():
    async def scenario():
        async with cluster(0) as c:
            a = await make(c.api, "a")
            b = await make(c.api, "b", a)
            await make(c.api, "c", b)
            await make(c.api, "free")
            await c.api.delete(MAPS, "default", "a", propagation="Background")
            await eventually(lambda: there(c.api) == {"free"})

    run(scenario())


def test_object_with_one_remaining_owner_loses_the_dangling_reference():
    async def scenario():
        async with cluster(0) as c:
            a, b = await make(c.api, "a"), await make(c.api, "b")
            await make(c.api, "c", a, b)
            await c.api.delete(MAPS, "default", "a", propagation="Background")

            def owners():
                return [r["name"] for r in c.api.read(MAPS, "default", "c")["metadata"]["ownerReferences"]]

            await eventually(lambda: owners() == ["b"])
            await c.api.delete(MAPS, "default", "b")
            await eventually(lambda: not there(c.api))

    run(scenario())


def test_foreground_deletion_waits_for_blocking_dependents():
    async def scenario():
        async with cluster(0) as c:
            a = await make(c.api, "a")
            b = await make(c.api, "b", a, block=True)
            await make(c.api, "c", b, block=True, finalizers=["example.com/wait"])
            await make(c.api, "d", a)  # goes as well, but nobody waits for it
            await c.api.delete(MAPS, "default", "a", propagation="Foreground")
            await eventually(lambda: there(c.api) == {"a", "b", "c"})
            await eventually(lambda: "deletionTimestamp" in c.api.read(MAPS, "default", "c")["metadata"])
            held = {name: c.api.read(MAPS, "default", name)["metadata"] for name in "abc"}
            await c.api.modify(MAPS, "default", "c", lambda found: found["metadata"].update(finalizers=[]))
            await eventually(lambda: not there(c.api))
            return held

    held = run(scenario())
    assert all("deletionTimestamp" in about for about in held.values())
    assert held["a"]["finalizers"] == held["b"]["finalizers"] == ["foregroundDeletion"]


def test_orphaned_dependents_stay_without_owner_reference():
    async def scenario():
        async with cluster(0) as c:
            a = await make(c.api, "a")
            await make(c.api, "b", a, block=True)
            await c.api.delete(MAPS, "default", "a", propagation="Orphan")
            await eventually(lambda: there(c.api) == {"b"})
            return c.api.read(MAPS, "default", "b")["metadata"].get("ownerReferences")

    assert not run(scenario())


def test_owner_with_another_uid_counts_as_absent():
    async def scenario():
        async with cluster(0) as c:
            a = await make(c.api, "a")
            a["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
            await make(c.api, "b", a)
            await eventually(lambda: there(c.api) == {"a"})

    run(scenario())


def test_owner_of_unserved_kind_keeps_the_object():
    async def scenario():
        async with cluster(0) as c:
            strange = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
            await make(c.api, "b", strange)
            gone = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gone", "uid": "u"}}
            await make(c.api, "c", gone)
            await eventually(lambda: there(c.api) == {"b"})

    run(scenario())


def test_garbage_collector_catches_up_after_restart(tmp_path):
    async def before():
        async with cluster(0, path=tmp_path) as c:
            a = await make(c.api, "a")
            await make(c.api, "b", a)

    async def meanwhile():
        from tests.support.apiserver import memory_api

        async with memory_api(tmp_path) as api:  # no controllers
            await api.delete(MAPS, "default", "a", propagation="Background")
            assert there(api) == {"b"}

    async def after():
        async with cluster(0, path=tmp_path) as c:
            await eventually(lambda: not there(c.api))

    for part in (before, meanwhile, after):
        run(part())


@st.composite
def families(draw):
    """For each object the ones before it that own it, and which of those without owners are deleted."""
    size = draw(st.integers(1, 10))
    owners = [draw(st.sets(st.integers(0, child - 1), max_size=2)) if child else set() for child in range(size)]
    roots = [child for child in range(size) if not owners[child]]
    return owners, draw(st.sets(st.sampled_from(roots), min_size=1))


@settings(max_examples=15)
@given(families(), st.sampled_from(["Background", "Foreground"]))
def test_objects_without_remaining_owners_are_deleted_and_no_others(family, propagation):
    owners, deleted = family
    gone = set(deleted)
    for child, parents in enumerate(owners):  # parents come before their children
        if parents and parents <= gone:
            gone.add(child)
    stay = {f"m{child}" for child in range(len(owners)) if child not in gone}

    async def scenario():
        async with cluster(0, kubelets=False) as c:
            made = []
            for child, parents in enumerate(owners):
                made.append(await make(c.api, f"m{child}", *(made[parent] for parent in sorted(parents)), block=True))
            await asyncio.gather(
                *(c.api.delete(MAPS, "default", f"m{root}", propagation=propagation) for root in deleted)
            )
            await eventually(lambda: there(c.api) == stay)
            await asyncio.sleep(0.02)
            assert there(c.api) == stay

    run(scenario())
