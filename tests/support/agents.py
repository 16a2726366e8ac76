"""The embedded API and the agent of this machine in the loop of a test, with real processes that end with the test."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.agent.cgroups import Cgroups
from pumice.agent.machine import find_machine
from pumice.agent.node_agent import AgentSettings, NodeAgent
from pumice.agent.pod_folders import PodFolders
from pumice.agent.shim.process_table import cgroup_processes, kill_all, marked_processes
from pumice.embedded.embedded_cluster import with_pumice
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session

NODE = "here"
CAPACITY = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2"}
SECONDS = 60.0

Object = dict[str, Any]


@dataclass
class AgentWorld:
    """A cluster whose only node is this machine."""

    running: RunningCluster
    api: Api
    folder: Path
    cgroups: Cgroups | None = None

    @asynccontextmanager
    async def agent(self, name: str = NODE, address: str = "127.0.0.1") -> AsyncIterator[NodeAgent]:
        """The agent at work; cancelled at the end, as if it were killed. Another name has a folder of its own."""
        folder = self.folder if name == NODE else self.folder.with_name(name)
        folder.mkdir(exist_ok=True)
        machine = find_machine(folder, CAPACITY, {})
        agent = NodeAgent(self.api, AgentSettings(name, machine, folder, address, self.cgroups))
        work = asyncio.create_task(agent.run())
        try:
            while agent.unready_reason:
                if work.done():
                    work.result()
                await asyncio.sleep(0.01)
            yield agent
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    async def submit(self, name: str, script: str = "true", *, spec: Object | None = None, **container: Any) -> str:
        """A pod on this machine that runs a shell script; its uid."""
        main = {"name": "main", "image": "host", "command": ["sh", "-c", script], **container}
        pod = {
            "metadata": {"name": name, "labels": {"team": "blue"}},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [main], **(spec or {})},
        }
        await self.running.api.create("pods", "default", pod)
        return str(self.pod(name)["metadata"]["uid"])

    def pod(self, name: str) -> Object:
        """A pod as it is now; empty if there is none."""
        return self.running.api.read("pods", "default", name) or {}

    async def wait(self, name: str, wanted: Callable[[Object], object]) -> Object:
        """Wait until the status of a pod is as wanted."""
        while not wanted((found := self.pod(name)).get("status") or {}):
            await asyncio.sleep(0.02)
        return found

    async def phase(self, name: str, *phases: str) -> Object:
        """Wait for one of these phases; the status then."""
        found = await self.wait(name, lambda status: status.get("phase") in phases)
        return dict(found["status"])

    async def gone(self, name: str) -> None:
        """Wait until the API no longer has a pod."""
        while self.pod(name):
            await asyncio.sleep(0.02)

    async def log(self, name: str, **query: str) -> str:
        """The log of a pod, through the API."""
        path = f"/api/v1/namespaces/default/pods/{name}/log"
        return (await self.api.session.call("GET", path, query=query)).decode()

    async def lines(self, name: str, count: int = 1) -> list[str]:
        """Wait until a pod has written so many lines."""
        await self.phase(name, "Running", "Succeeded", "Failed")
        while len(found := (await self.log(name)).splitlines()) < count:
            await asyncio.sleep(0.02)
        return found

    def end_processes(self) -> None:
        """Kill whatever pods have left on this machine."""
        for folder in self.folder.parent.glob("*/pods"):
            end_processes_in(folder.parent)
        if self.cgroups is not None:
            self.cgroups.remove()


def end_processes_in(agent_folder: Path) -> None:
    """Kill whatever the pods of an agent have left on this machine."""
    folders = PodFolders(agent_folder / "pods")
    for folder in filter(None, map(folders.get, folders.uids())):
        shim, cgroups = folder.shim(), folder.plan["cgroups"] if folder.plan else []
        if shim is not None and folder.is_shim_alive():
            os.kill(shim["pid"], signal.SIGKILL)
        assert kill_all(lambda uid=folder.uid, cgroups=cgroups: marked_processes(uid) | cgroup_processes(cgroups))
        folder.remove()
        for parent in {Path(group).parent for group in cgroups if Path(group).name.startswith("pod-")}:
            with suppress(OSError):
                parent.rmdir()


def on_this_machine(
    place: Path, check: Callable[[AgentWorld], Awaitable[None]], *, cgroups: Callable[[], Cgroups | None] | None = None
) -> None:
    """Run a check on a cluster whose only node is this machine."""

    async def run() -> None:
        settings = ServerSettings(data=None, kubeconfig=place / "kubeconfig", nodes=[])
        async with running_cluster(with_pumice(settings)) as running, Session(Access(running.server)) as session:
            folder = place / "agent"
            folder.mkdir()
            world = AgentWorld(running, Api(session), folder, cgroups() if cgroups else None)
            assert world.cgroups is None or world.cgroups.hold()
            try:
                async with asyncio.timeout(SECONDS):
                    await check(world)
            finally:
                world.end_processes()

    asyncio.run(run())


def terminated(status: Mapping[str, Any]) -> Object:
    """How the only container of a pod ended."""
    return dict(status["containerStatuses"][0]["state"]["terminated"])
