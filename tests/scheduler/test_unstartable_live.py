"""A job that cannot start says so on its PodGroup: in a condition, and in an Event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesim.server import RunningCluster
from pumice.engine.candidates import unstartable_jobs as unstartable
from tests.support.live_cluster import GROUPS, eventually, live, placed, scheduling, submit


def condition(running: RunningCluster, name: str) -> dict[str, Any]:
    conditions = (running.api.read(GROUPS, "default", name) or {}).get("status", {}).get("conditions") or [{}]
    (found,) = conditions
    return dict(found)


def events(running: RunningCluster, name: str) -> list[tuple[str, str, str]]:
    found = [event for event in running.api.list("events") if event["involvedObject"]["kind"] == "PodGroup"]
    return [
        (event["type"], event["reason"], event["message"]) for event in found if event["involvedObject"]["name"] == name
    ]


def test_unstartable_job_gets_pod_group_condition_and_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unstartable, "REPORT_DELAY", 200_000)
    too_few = "2 of 5 required pods (minMember) exist; the job can start after the remaining pods are created"
    no_node = "its tasks (cpu 1, nvidia.com/gpu 1) would fit no node, not even an empty one: no node has nvidia.com/gpu"
    too_large = "the job must start 13 tasks together (cpu 13), more than the cluster could hold if it were empty"

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await submit(running, "few", 2, least=5)
            await submit(running, "large", 13)
            spec = {"minMember": 1, "queue": "default"}
            await running.api.create(GROUPS, "default", {"metadata": {"name": "gpu"}, "spec": spec})
            about = {"name": "gpu-0", "annotations": {"scheduling.k8s.io/group-name": "gpu"}}
            amounts = {"cpu": "1", "nvidia.com/gpu": "1"}
            container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
            pod = {"schedulerName": "pumice", "containers": [container]}
            await running.api.create("pods", "default", {"metadata": about, "spec": pod})
            for name, reason, message in (
                ("few", "NotEnoughTasks", too_few),
                ("gpu", "NoNodeFits", no_node),
                ("large", "ClusterTooSmall", too_large),
            ):
                said = {"type": "Unschedulable", "status": "True", "reason": reason, "message": message}
                await eventually(lambda: said.items() <= condition(running, name).items())  # noqa: B023  # awaited here
                await eventually(lambda: ("Warning", "Unschedulable", message) in events(running, name))  # noqa: B023  # awaited
            assert not placed(running)

    live(tmp_path, check)
