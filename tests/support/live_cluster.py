"""The whole of it in one loop, for tests: the embedded API with simulated nodes, and the scheduler at work on it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.config.load import default_config
from pumice.embedded.embedded_cluster import with_pumice
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.scheduler.loop import Scheduler

QUEUES = "queues.scheduling.volcano.sh"
GROUPS = "podgroups.scheduling.volcano.sh"
CPU = 4


@asynccontextmanager
async def scheduling(server: str, config: SchedulerConfig | None = None, **more: Any) -> AsyncIterator[Scheduler]:
    """A scheduler at work; ``more`` is for its constructor."""
    async with Session(Access(server)) as session:
        scheduler = Scheduler(Api(session), config or default_config(), **more)
        work = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            await scheduler.done()


def live(place: Path, check: Callable[[RunningCluster], Awaitable[None]], *, count: int = 3) -> None:
    async def run() -> None:
        wanted = make_nodes(count, parse_capacity(f"cpu={CPU},memory=64Gi"))
        settings = ServerSettings(data=None, kubeconfig=place / "kubeconfig", nodes=wanted)
        async with running_cluster(with_pumice(settings)) as running, asyncio.timeout(60):
            await check(running)

    asyncio.run(run())


async def submit(
    running: RunningCluster, name: str, size: int, *, queue: str = "default", least: int = 0, **annotations: str
) -> None:
    """A gang of one-cpu pods."""
    spec = {"minMember": least or size, "queue": queue}
    await running.api.create(GROUPS, "default", {"metadata": {"name": name}, "spec": spec})
    for number in range(size):
        about = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name, **annotations}}
        request = {"requests": {"cpu": "1"}}
        pod = {"schedulerName": "pumice", "containers": [{"name": "c", "image": "x", "resources": request}]}
        await running.api.create("pods", "default", {"metadata": about, "spec": pod})


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.02)


def placed(running: RunningCluster) -> dict[str, list[str]]:
    """The pods of each job that have a node."""
    found = defaultdict(list)
    for pod in running.api.list("pods"):
        if pod["spec"].get("nodeName"):
            found[pod["metadata"]["name"].rpartition("-")[0]].append(pod["spec"]["nodeName"])
    return found


def said(running: RunningCluster) -> Counter[tuple[str, str]]:
    return Counter((event["involvedObject"]["kind"], event["reason"]) for event in running.api.list("events"))


def phase(running: RunningCluster, name: str) -> str:
    found = running.api.read(GROUPS, "default", name)
    return str((found or {}).get("status", {}).get("phase", ""))
