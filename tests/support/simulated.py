"""A whole cluster in memory: the API, its controllers and its simulated nodes, at a hundred times the speed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubesim import controllers
from kubesim.api.client import InProcessClient
from kubesim.api.requests import Target, WriteOptions
from kubesim.api.status import ApiError
from kubesim.api.subresources import create_binding
from kubesim.clock import Clock
from kubesim.kubelet.kubelets import Kubelets
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from tests.support.apiserver import memory_api

CAPACITY = "cpu=8,memory=32Gi,nvidia.com/gpu=4,pods=20"
SPEED = 100.0
PATIENCE = 30.0  # how long a test waits for what it expects, on a busy machine


@dataclass
class Cluster:
    api: InProcessClient
    kubelets: Kubelets
    clock: Clock

    def pod(self, name: str) -> dict[str, Any] | None:
        return self.api.read("pods", "default", name)

    def phase(self, name: str) -> str | None:
        found = self.pod(name)
        return found["status"]["phase"] if found else None

    def node(self, name: str) -> dict[str, Any]:
        found = self.api.read("nodes", "", name)
        assert found is not None
        return found

    async def run_pod(self, name: str, node: str = "node-000", **more: Any) -> dict[str, Any]:
        return await self.api.create("pods", "default", pod(name, node=node, **more))


def pod(name: str, *, node: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod, on a node from the start."""
    spec = {"containers": [{"name": "main", "image": "busybox"}], **spec}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def lasting(seconds: float, **more: str) -> dict[str, str]:
    return {"kubesim.dev/run-seconds": str(seconds)} | {f"kubesim.dev/{key}": value for key, value in more.items()}


@asynccontextmanager
async def cluster(
    count: int = 1, *, path: Path | None = None, speed: float = SPEED, kubelets: bool = True
) -> AsyncIterator[Cluster]:
    """A cluster of so many nodes of one size."""
    async with memory_api(path) as api:
        clock = Clock(speed)
        simulated = Kubelets(api, clock, make_nodes(count, parse_capacity(CAPACITY)))
        work = controllers.all_controllers(api, clock)
        if kubelets:
            await simulated.register()
            work.append(simulated.run())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield Cluster(api, simulated, clock)
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in ended:
                task.result()  # none of them should have ended: say why it did


@asynccontextmanager
async def scheduled(**more: Any) -> AsyncIterator[Cluster]:
    """A cluster of one node, with a scheduler that puts every pod there."""
    async with cluster(1, **more) as c:

        async def bind() -> None:
            pods = c.api.registry.stored("pods")
            assert pods is not None
            async for batch in c.api.follow("pods"):
                for change in batch:
                    if not change.deleted and not change.object["spec"].get("nodeName"):
                        name = change.object["metadata"]["name"]
                        aim = Target(pods, "default", name, "binding")
                        target = {"target": {"kind": "Node", "name": "node-000"}, "metadata": {"name": name}}
                        with suppress(ApiError):  # it may have been deleted
                            await create_binding(c.api, aim, target, WriteOptions(), c.api.new_context())

        task = asyncio.create_task(bind())
        try:
            yield c
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while not holds():
        assert loop.time() < deadline, "it never came true"
        await asyncio.sleep(0.005)


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(2 * PATIENCE):
            return await scenario

    return asyncio.run(bounded())
