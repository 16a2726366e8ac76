"""The loop of controllers: owners are reconciled once all children are known."""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.controllers.controller_loop import run_controller
from tests.support.apiserver import memory_api
from tests.support.workloads import REPLICA_SETS, replica_set, template


def test_owners_are_reconciled_once_all_children_are_known():
    async def scenario():
        seen = []
        async with memory_api() as api, asyncio.timeout(30):
            for name in ("a", "b"):
                await api.create("pods", "default", {"metadata": {"name": name}, "spec": template()["spec"]})
            await api.create(REPLICA_SETS, "default", replica_set("s"))
            reconciled = asyncio.Event()

            async def reconcile(key):
                seen.append(f"reconciled {key}")
                reconciled.set()

            queue = WorkQueue(reconcile)
            queue.add("s")  # waits for the loop
            owners = {REPLICA_SETS: lambda change: seen.append(change.key)}
            loop = asyncio.create_task(
                run_controller(api, queue, ("pods", lambda change: seen.append(change.key)), owners)
            )
            await reconciled.wait()
            while f"{REPLICA_SETS}/default/s" not in seen:
                await asyncio.sleep(0)
            loop.cancel()
            return seen

    seen = asyncio.run(scenario())
    assert seen[:2] == ["pods/default/a", "pods/default/b"]
    assert set(seen[2:]) == {f"{REPLICA_SETS}/default/s", "reconciled s"}
