"""The condition of a podgroup about containers that cannot start: it comes, changes, stays and goes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubesim.server import RunningCluster
from pumice.controllers.manager import ControllerManager
from pumice.controllers.podgroup_conditions import CONTAINERS_BLOCKED, PodGroupConditions
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from pumice.kube.client.transport import Session
from tests.support.live_cluster import GROUPS, eventually, live, submit

PODS = "/api/v1/namespaces/default/pods"
PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
UNSCHEDULABLE = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "full"}


def waiting(reason: str) -> dict[str, Any]:
    """The status of a pod whose container waits for a reason; empty: it runs."""
    state: dict[str, Any] = {"waiting": {"reason": reason}} if reason else {"running": {}}
    entry = {"name": "c", "state": state, "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
    return {"status": {"phase": "Pending" if reason else "Running", "containerStatuses": [entry]}}


def conditions(running: RunningCluster) -> dict[str, tuple[str, str]]:
    group = running.api.read(GROUPS, "default", "job") or {}
    found = (group.get("status") or {}).get("conditions") or ()
    return {one["type"]: (one["reason"], one["message"]) for one in found}


def test_condition_follows_the_containers_of_running_pods(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        client = Client(Access(running.server))

        async def set_state(pod: str, reason: str) -> None:
            await asyncio.to_thread(client.merge, f"{PODS}/{pod}/status", waiting(reason))

        async with Session(Access(running.server)) as session:
            work = asyncio.create_task(ControllerManager(Api(session), [PodGroupConditions]).run())
            await submit(running, "job", 2)
            for pod in ("job-0", "job-1"):
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": "none"}}
                await asyncio.to_thread(client.create, f"{PODS}/{pod}/binding", binding)
            await set_state("job-1", "ContainerCreating")
            await set_state("job-0", "ErrImagePull")
            said = "1 of 2 running pods cannot start its container: pod job-0, container c: ImagePullBackOff"
            await eventually(lambda: conditions(running) == {CONTAINERS_BLOCKED: ("ImagePullBackOff", said)})

            await asyncio.to_thread(client.merge, f"{PODGROUPS}/job", {"status": {"conditions": [UNSCHEDULABLE]}})
            await eventually(lambda: conditions(running).keys() == {"Unschedulable", CONTAINERS_BLOCKED})

            await set_state("job-0", "CrashLoopBackOff")
            await eventually(lambda: conditions(running)[CONTAINERS_BLOCKED][0] == "CrashLoopBackOff")
            await set_state("job-0", "")
            await eventually(lambda: conditions(running).keys() == {"Unschedulable"})
            await set_state("job-1", "CreateContainerConfigError")
            await eventually(lambda: CONTAINERS_BLOCKED in conditions(running))
            await asyncio.to_thread(client.delete, f"{PODS}/job-1")
            await eventually(lambda: CONTAINERS_BLOCKED not in conditions(running))
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    live(tmp_path, check, count=0)
