"""The clock of the machine jumps by days, ahead and back, while a cluster is at work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kubesim.controllers.conditions import find_condition
from kubesim.server import RunningCluster
from pumice.scheduler.slewed_clock import SlewedClock
from tests.support.live_cluster import eventually, live, placed, scheduling, submit

DAY = 24 * 3600.0


def test_jobs_are_placed_and_no_node_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jump, machine = 0.0, time.time
    monkeypatch.setattr(time, "time", lambda: machine() + jump)

    def is_ready(running: RunningCluster, node: str) -> bool:
        found = running.api.read("nodes", "", node)
        ready = find_condition((found or {}).get("status") or {}, "Ready")
        return ready is not None and ready["status"] == "True"

    async def story(running: RunningCluster) -> None:
        nonlocal jump
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "of a real kubelet"}
        await running.api.create("nodes", "", {"metadata": {"name": "real"}, "status": {"conditions": [ready]}})
        async with scheduling(running.server, now=SlewedClock(machine=time.time)):
            for number, ahead in enumerate((0.0, DAY, -DAY, 30 * DAY)):
                jump = ahead
                name = f"job{number}"
                await submit(running, name, 2, **{"pumice.dev/run-seconds": "0.2"})
                await eventually(lambda name=name: len(placed(running)[name]) == 2)
                over = [f"{name}-0", f"{name}-1"]
                await eventually(
                    lambda over=over: all(
                        (running.api.read("pods", "default", pod) or {})["status"].get("phase") == "Succeeded"
                        for pod in over
                    )
                )
                assert all(is_ready(running, node["metadata"]["name"]) for node in running.api.list("nodes"))

    live(tmp_path, story)
