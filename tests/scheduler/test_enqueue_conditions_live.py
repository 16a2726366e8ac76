"""A job that is not admitted says why in ``kubectl describe``, and no longer once it is admitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesim.server import RunningCluster
from pumice.config.load import default_config
from pumice.scheduler import enqueue_conditions
from tests.support.live_cluster import GROUPS, eventually, live, phase, scheduling

# The cluster has 3 nodes of 4 cpu; the capability of the queue is 6, so a second gang of 4 is not admitted.
REASON = "QueueLimit"


def conditions(running: RunningCluster, name: str) -> list[dict[str, Any]]:
    found = (running.api.read(GROUPS, "default", name) or {}).get("status", {}).get("conditions")
    return list(found or ())


def events(running: RunningCluster, name: str) -> list[tuple[str, str, str]]:
    found = [event for event in running.api.list("events") if event["involvedObject"]["kind"] == "PodGroup"]
    return [
        (event["type"], event["reason"], event["message"]) for event in found if event["involvedObject"]["name"] == name
    ]


async def create(running: RunningCluster, name: str) -> None:
    spec = {"minMember": 4, "queue": "small", "minResources": {"cpu": "4"}}
    await running.api.create(GROUPS, "default", {"metadata": {"name": name}, "spec": spec})


def test_a_group_that_is_not_admitted_gets_condition_and_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"FIRST_CHECK": 0.2, "TICK": 0.05, "CHECK_AGAIN": 0.1}.items():
        monkeypatch.setattr(enqueue_conditions, name, seconds)

    async def check(running: RunningCluster) -> None:
        queue = {"metadata": {"name": "small"}, "spec": {"weight": 1, "capability": {"cpu": "6"}}}
        await running.api.create("queues.scheduling.volcano.sh", "", queue)
        async with scheduling(running.server, default_config()):
            await create(running, "first")
            await eventually(lambda: phase(running, "first") == "Inqueue")
            await create(running, "second")
            await eventually(lambda: bool(conditions(running, "second")))
            (found,) = conditions(running, "second")
            assert (found["type"], found["status"], found["reason"]) == ("Unschedulable", "True", REASON)
            assert found["message"].startswith("The job is not admitted to queue root/small: ")
            assert phase(running, "second") == "Pending"
            said = ("Warning", "Unschedulable", found["message"])
            await eventually(lambda: events(running, "second") == [said])
            assert conditions(running, "first") == [] and events(running, "first") == []
            await running.api.delete(GROUPS, "default", "first")
            await eventually(lambda: phase(running, "second") == "Inqueue")
            assert conditions(running, "second") == []

    live(tmp_path, check)
