"""The status of quotas, as the controller writes it."""

from __future__ import annotations

import asyncio

from tests.support.simulated import cluster, eventually, lasting, pod, run

QUOTAS = "resourcequotas"


def quota(name="q", **hard):
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


def test_the_status_follows_what_is_used():
    async def scenario():
        async with cluster(1) as c:

            def status():
                return c.api.read(QUOTAS, "default", "q")["status"]

            hard = {"pods": "3", "count/pods": "9", "volcano.sh/namespace.weight": "2"}
            await c.api.create(QUOTAS, "default", quota(**hard))
            await eventually(lambda: status() == {"hard": hard, "used": {"pods": "0", "count/pods": "0"}})
            await c.run_pod("short", annotations=lasting(20))
            await c.run_pod("long", annotations=lasting(1e6))
            await eventually(lambda: status()["used"] == {"pods": "2", "count/pods": "2"})
            # The short one is over, but still there.
            await eventually(lambda: status()["used"] == {"pods": "1", "count/pods": "2"})
            await c.api.delete("pods", "default", "short")
            await c.api.delete("pods", "default", "long", grace=0)
            await eventually(lambda: status()["used"] == {"pods": "0", "count/pods": "0"})

    run(scenario())


def test_quota_status_written_by_users_is_corrected():
    async def scenario():
        async with cluster(0) as c:
            await c.api.create(QUOTAS, "default", quota(pods="3"))
            counted = {"hard": {"pods": "3"}, "used": {"pods": "0"}}
            await eventually(lambda: c.api.read(QUOTAS, "default", "q")["status"] == counted)

            def lie(found):
                found["status"]["used"] = {"pods": "3"}

            await c.api.modify(QUOTAS, "default", "q", lie, subresource="status")
            await eventually(lambda: c.api.read(QUOTAS, "default", "q")["status"] == counted)
            await c.api.create("pods", "default", pod("a"))  # nobody is refused because of it

    run(scenario())


def test_quotas_count_each_other():
    async def scenario():
        async with cluster(0) as c:

            def counted():
                return {q["metadata"]["name"]: q["status"].get("used") for q in c.api.list(QUOTAS, "default")}

            await c.api.create(QUOTAS, "default", quota("a", resourcequotas="5"))
            await c.api.create(QUOTAS, "default", quota("b", resourcequotas="5"))
            await eventually(lambda: counted() == {name: {"resourcequotas": "2"} for name in "ab"})
            await c.api.delete(QUOTAS, "default", "a")
            await eventually(lambda: counted() == {"b": {"resourcequotas": "1"}})

    run(scenario())


def test_a_burst_of_pods_costs_few_writes_of_status():
    async def scenario():
        async with cluster(0) as c:
            await c.api.create(QUOTAS, "default", quota(pods="1000"))
            await eventually(lambda: "used" in c.api.read(QUOTAS, "default", "q")["status"])
            before = c.api.store.revision
            await asyncio.gather(*(c.api.create("pods", "default", pod(f"p{n}")) for n in range(200)))
            await eventually(lambda: c.api.read(QUOTAS, "default", "q")["status"]["used"] == {"pods": "200"})
            changes, _ = c.api.store.changes(f"{QUOTAS}/", before, 1000)
            assert len(changes) < 50

    run(scenario())
