"""The service on the embedded API with simulated nodes: pods are created by anybody and run where they should."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kubesim.server import RunningCluster
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.scheduler import loop
from tests.support.live_cluster import CPU, GROUPS, QUEUES, eventually, live, phase, placed, said, scheduling, submit


def status(running: RunningCluster, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = (running.api.read(QUEUES, "", queue) or {}).get("status", {})
    return found


def summary(running: RunningCluster, queue: str) -> dict[str, Any]:
    """The status of a queue, with its amounts in cpu."""
    shown = status(running, queue)
    amounts = {name: shown.get(name, {}).get("cpu") for name in ("allocated", "entitled")}
    return {"share": shown.get("share"), "running": shown.get("running"), **amounts}


def test_a_gang_starts_whole_and_one_that_does_not_fit_waits(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await submit(running, "fits", 4)
            await eventually(lambda: phase(running, "fits") == "Running")
            # 12 cpu in all, 4 of them taken: 9 do not fit, 4 do. Each job is entitled to 4, so nobody has too much.
            await submit(running, "large", 9)
            await submit(running, "small", 4)
            await eventually(lambda: len(placed(running)["small"]) == 4)
            assert {job: len(where) for job, where in placed(running).items()} == {"fits": 4, "small": 4}
            assert phase(running, "large") in {"Pending", "Inqueue"}
            load = Counter(node for where in placed(running).values() for node in where)
            assert max(load.values()) <= CPU

    live(tmp_path, check)


def test_scheduler_starts_although_the_first_lists_are_longer_than_its_queue(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        with mock.patch.object(loop, "ChangeQueue", partial(ChangeQueue, long=2)):
            async with scheduling(running.server) as scheduler:
                await eventually(lambda: scheduler.cycles)
                assert len(scheduler.engine.state.nodes) == 3

    live(tmp_path, check)


def test_finished_job_frees_room_and_pod_group_reports_completed(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await submit(running, "first", 12, **{"pumice.dev/run-seconds": "0.3"})
            await submit(running, "second", 12, **{"pumice.dev/run-seconds": "0.3"})
            await eventually(lambda: phase(running, "first") == phase(running, "second") == "Completed")
            found: dict[str, Any] = running.api.read(GROUPS, "default", "second") or {}
            assert found["status"]["succeeded"] == 12 and not found["status"].get("running")
            await eventually(lambda: said(running)["Pod", "Scheduled"] == 24)

    live(tmp_path, check)


def test_a_queue_that_wakes_has_its_part_back(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        for name, weight in (("a", 2), ("b", 1)):
            await running.api.create(
                QUEUES, "", {"metadata": {"name": name}, "spec": {"weight": weight, "parent": "root"}}
            )
        async with scheduling(running.server):
            await submit(running, "lent", 12, queue="b", least=1, **{"pumice.dev/stop-seconds": "0.1"})
            await eventually(lambda: len(placed(running)["lent"]) == 12)
            await submit(running, "owner", 12, queue="a", least=1)
            # By weight 2 : 1 of 12 cpu: 8 and 4.
            await eventually(lambda: len(placed(running)["owner"]) == 8 and len(placed(running)["lent"]) == 4)
            await asyncio.sleep(0.5)
            assert len(placed(running)["owner"]) == 8 and len(placed(running)["lent"]) == 4
            wanted = {"share": 0.6667, "allocated": "8", "entitled": "8", "running": 1}
            await eventually(lambda: summary(running, "a") == wanted)
            await eventually(lambda: status(running, "b")["allocated"]["cpu"] == "4")
            # The root counts for everything below it.
            await eventually(lambda: status(running, "root")["running"] == 2)

    live(tmp_path, check)


def test_a_binding_that_somebody_was_quicker_with_is_taken_as_it_is(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)
            real = scheduler.binder._api.bind

            async def late(namespace: str, pod: str, node: str, **more: Any) -> None:
                # Another scheduler has put it elsewhere in the meantime.
                await real(namespace, pod, "node-002", **more)
                await real(namespace, pod, node, **more)

            scheduler.binder._api.bind = late  # type: ignore[method-assign,assignment]  # a race, on purpose
            await submit(running, "raced", 2)
            await eventually(lambda: placed(running)["raced"] == ["node-002", "node-002"])
            await eventually(lambda: scheduler.binder.failed == 2 and scheduler.cache.open_assumptions == 0)
            await eventually(lambda: phase(running, "raced") == "Running")
            scheduler.engine.validate()

    live(tmp_path, check)


def test_a_scheduler_that_is_replaced_goes_on_from_what_it_finds(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        for number in range(3):
            await submit(running, f"j{number}", 4)
        async with scheduling(running.server):
            await eventually(lambda: bool(placed(running)))
        async with scheduling(running.server) as again:
            await eventually(lambda: all(phase(running, f"j{number}") == "Running" for number in range(3)))
            load = Counter(node for where in placed(running).values() for node in where)
            assert max(load.values()) <= CPU and sum(load.values()) == 12
            await eventually(lambda: again.cycles > 0)  # the first one may have done everything
            again.engine.validate()

    live(tmp_path, check)
