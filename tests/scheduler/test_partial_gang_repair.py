"""Gangs that a crash left incomplete, as a scheduler finds them that starts now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kubesim.server import RunningCluster
from pumice.config.load import default_config
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.scheduler.loop import Scheduler
from tests.support.live_cluster import CPU, GROUPS, eventually, live, phase, placed, said, submit


class Clock:
    """The time, and some more."""

    more = 0.0

    def __call__(self) -> float:
        return time.time() + self.more


@asynccontextmanager
async def scheduling_by(clock: Clock, running: RunningCluster) -> AsyncIterator[Scheduler]:
    async with Session(Access(running.server)) as session:
        scheduler = Scheduler(Api(session), default_config(), now=clock)
        work = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            await scheduler.done()


async def bind(running: RunningCluster, *pods: str, ours: bool = True) -> None:
    """As a scheduler did that is no more."""
    annotations = {"pumice.dev/placed-by": "pumice"} if ours else {}
    async with Session(Access(running.server)) as session:
        for pod in pods:
            await Api(session).bind("default", pod, "node-000", annotations=annotations)


def test_the_rest_of_a_gang_comes_first_and_only_then_it_says_that_it_runs(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "left", 4)
        await bind(running, "left-0", "left-1")
        await submit(running, "other", 4)
        phases: set[tuple[int, str]] = set()
        async with scheduling_by(Clock(), running) as scheduler:
            watch = scheduler.watchers
            watch.append(lambda cycle: phases.add((len(placed(running)["left"]), phase(running, "left"))))
            await eventually(lambda: phase(running, "left") == "Running")
        assert len(placed(running)["left"]) == CPU == 4
        assert not placed(running)["other"]
        assert {said for bound, said in phases if bound < 4} <= {"", "Pending", "Inqueue"}

    live(tmp_path, check, count=1)


def test_a_part_that_cannot_be_completed_is_given_back(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        clock = Clock()
        await submit(running, "large", CPU + 2, **{"pumice.dev/stop-seconds": "0.1"})
        await bind(running, "large-0", "large-1")
        await submit(running, "small", 2)
        async with scheduling_by(clock, running):
            await eventually(lambda: len(placed(running)["small"]) == 2)  # others go on
            await eventually(lambda: reason(running, "large") == "GangIncomplete")
            assert len(placed(running)["large"]) == 2
            clock.more = 31.0
            await eventually(lambda: not placed(running)["large"])
            await eventually(lambda: said(running)["Pod", "Evict"] == 2)
            await eventually(lambda: said(running)["PodGroup", "Evict"] == 2)
            evictions = [event for event in running.api.list("events") if event["reason"] == "Evict"]
            why = "because the rest of its gang could not start in time"
            assert {(event["involvedObject"]["kind"], event["type"], event["message"]) for event in evictions} == {
                ("Pod", "Warning", f"Evicted from node node-000 {why} (action repair-gangs)"),
                ("PodGroup", "Normal", f"Evicted pod large-0 from node node-000 {why}"),
                ("PodGroup", "Normal", f"Evicted pod large-1 from node node-000 {why}"),
            }
            assert len(placed(running)["small"]) == 2

    live(tmp_path, check, count=1)


def test_partial_gang_bound_by_other_scheduler_is_kept(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        clock = Clock()
        await submit(running, "large", CPU + 2)
        await bind(running, "large-0", "large-1", ours=False)
        async with scheduling_by(clock, running) as scheduler:
            await eventually(lambda: scheduler.cycles > 2)
            clock.more = 100.0
            before = scheduler.cycles
            await eventually(lambda: scheduler.cycles > before + 2)
        assert len(placed(running)["large"]) == 2

    live(tmp_path, check, count=1)


def reason(running: RunningCluster, group: str) -> str:
    found: dict[str, Any] = running.api.read(GROUPS, "default", group) or {}
    return next((str(c["reason"]) for c in found.get("status", {}).get("conditions", [])), "")
