"""Conditions of queues: written beside those of others, ended when they are over, also by a scheduler that is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubesim.server import RunningCluster
from pumice.scheduler.queue_conditions import renewed
from tests.support.live_cluster import QUEUES, eventually, live, said, scheduling

EXCEEDED = "GuaranteesExceedCapacity"


def condition(running: RunningCluster, queue: str, kind: str) -> dict[str, Any]:
    status = (running.api.read(QUEUES, "", queue) or {}).get("status") or {}
    return next((found for found in status.get("conditions") or () if found["type"] == kind), {})


async def guarantee(running: RunningCluster, cpu: int) -> None:
    spec = {"parent": "root", "guarantee": {"resource": {"cpu": str(cpu)}}}
    await running.api.create(QUEUES, "", {"metadata": {"name": "kept"}, "spec": spec})


async def cordon(running: RunningCluster, *, unschedulable: bool) -> None:
    def edit(node: dict[str, Any]) -> None:
        node["spec"]["unschedulable"] = unschedulable

    for node in running.api.list("nodes")[:2]:
        await running.api.modify("nodes", "", node["metadata"]["name"], edit)


def test_guarantees_that_the_cluster_can_no_longer_keep(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await guarantee(running, 10)  # of 12
        async with scheduling(running.server):
            await cordon(running, unschedulable=True)
            all_cordoned = (  # after the first of two nodes it is cpu 8
                "the children of queue 'root' have guarantee cpu 10 in total, "
                "more than the allocatable cpu 4 of the cluster"
            )
            await eventually(lambda: condition(running, "root", EXCEEDED).get("message") == all_cordoned)
            assert condition(running, "root", EXCEEDED)["status"] == "True"
            await cordon(running, unschedulable=False)
            await eventually(lambda: condition(running, "root", EXCEEDED).get("status") == "False")
            assert condition(running, "root", EXCEEDED)["reason"] == "GuaranteesFit"
            await eventually(lambda: said(running)["Queue", EXCEEDED] >= 1)

    live(tmp_path, check)


def test_a_scheduler_that_is_new_ends_what_no_longer_holds(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await guarantee(running, 10)
        async with scheduling(running.server):
            await cordon(running, unschedulable=True)
            await eventually(lambda: condition(running, "root", EXCEEDED).get("status") == "True")
        await cordon(running, unschedulable=False)
        async with scheduling(running.server):
            await eventually(lambda: condition(running, "root", EXCEEDED).get("status") == "False")

    live(tmp_path, check)


def test_conditions_of_others_stay_and_what_is_said_again_keeps_its_time() -> None:
    theirs = {"type": "Placed", "status": "False"}
    new = {"type": "Halted", "status": "True", "reason": "Halted", "message": "m"}
    there = renewed([theirs], {"Halted": new}, "then")
    assert there == [theirs, {"lastTransitionTime": "then", **new}]
    assert renewed(there, {"Halted": new}, "now") == there
    over = {"type": "Halted", "status": "False", "reason": "Resumed", "message": "again"}
    assert renewed(there, {"Halted": over}, "now") == [theirs, {"lastTransitionTime": "now", **over}]
    assert renewed([theirs], {"Halted": over}, "now") == [theirs], "it never held"
