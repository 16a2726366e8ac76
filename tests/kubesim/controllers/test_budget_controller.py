"""Disruption budgets and evictions through the real API."""

from __future__ import annotations

import asyncio

from kubesim.api.requests import Target, WriteOptions
from kubesim.api.status import ApiError
from kubesim.api.subresources import create_eviction
from tests.support.simulated import cluster, eventually, pod, run

BUDGETS = "poddisruptionbudgets.policy"


def test_evictions_are_allowed_as_long_as_enough_pods_are_left():
    async def scenario():
        async with cluster() as c:
            spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
            await c.api.create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": spec})
            for name in "abc":
                made = pod(name, node="node-000", terminationGracePeriodSeconds=1)
                made["metadata"]["labels"] = {"app": "web"}
                await c.api.create("pods", "default", made)

            def status():
                return c.api.read(BUDGETS, "default", "b")["status"]

            await eventually(lambda: status().get("disruptionsAllowed") == 1)
            counted = status()

            async def evict(name):
                aim = Target(c.api.registry.stored("pods"), "default", name, "eviction")
                try:
                    await create_eviction(c.api, aim, {"metadata": {"name": name}}, WriteOptions(), c.api.new_context())
                except ApiError as error:
                    return error.code
                return 201

            codes = await asyncio.gather(*(evict(name) for name in "abc"))
            await eventually(lambda: len(c.api.list("pods", "default")) == 2)
            await eventually(lambda: status()["currentHealthy"] == 2 and status()["expectedPods"] == 2)
            return counted, codes, status()

    counted, codes, last = run(scenario())
    assert counted["expectedPods"] == counted["currentHealthy"] == 3
    assert sorted(codes) == [201, 429, 429]  # however many ask at the same time
    assert last["disruptionsAllowed"] == 0
    assert not last.get("disruptedPods")
