"""What queues say of themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubesim.server import RunningCluster
from pumice.config.load import default_config, read_config
from pumice.kube import resources
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.model.specs import Queue
from pumice.scheduler import queue_status
from pumice.scheduler.loop import Scheduler
from pumice.scheduler.queue_status import statuses
from pumice.scheduler.queue_status_updater import QueueStatusUpdater
from tests.support.live_cluster import QUEUES, eventually, live, placed, scheduling, submit
from tests.support.taking import Shell, taking_engine


class FakeBinder:
    def __init__(self) -> None:
        self.said: dict[str, dict[str, Any]] = {}

    def write_queue_status(self, name: str, status: dict[str, Any]) -> None:
        self.said[name] = status


def test_a_queue_that_loses_its_place_does_not_keep_its_last_numbers() -> None:
    shell = Shell(taking_engine(), audited=False)
    shell.node("n", 4)
    shell.child("a")
    shell.child("b", "a")
    shell.job("b", [(1,)] * 4, 1, name="j")
    shell.cycle()
    binder, time = FakeBinder(), iter(range(100))
    queues = QueueStatusUpdater(binder, lambda: float(next(time)))  # type: ignore[arg-type]  # all it needs
    queues.refresh(shell.engine, (), moved=True)
    assert (binder.said["b"]["allocated"]["cpu"], binder.said["b"]["share"], binder.said["b"]["running"]) == (
        "4m",
        1.0,
        1,
    )
    # Its parent is named that is not there: it has no place, its job holds nothing anywhere.
    there: Queue = shell.engine.state.queues["b"]
    shell.put(replace(there, parent="nowhere"))
    shell.cycle()
    queues.refresh(shell.engine, (), moved=True)
    assert set(binder.said["b"]["allocated"].values()) == set(binder.said["b"]["entitled"].values()) == {"0"}
    assert (binder.said["b"]["share"], binder.said["b"]["running"]) == (0.0, 1)
    assert statuses(shell.engine).keys() == shell.engine.state.queues.keys()


async def annotated_queue(running: RunningCluster, name: str, path: str, weights: str = "", **spec: Any) -> None:
    annotations = {"volcano.sh/hierarchy": path} | ({"volcano.sh/hierarchy-weights": weights} if weights else {})
    await running.api.create(QUEUES, "", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})


def status_of(running: RunningCluster, name: str) -> dict[str, Any]:
    return (running.api.read(QUEUES, "", name) or {}).get("status") or {}


async def settled(scheduler: Scheduler) -> None:
    """Everything that the scheduler has to say of queues is written and seen."""
    await eventually(lambda: scheduler.cache.open_assumptions == 0)
    before = scheduler.cycles
    await eventually(lambda: scheduler.cycles > before + 3)
    await scheduler.binder.done()


def test_weight_path_pods_and_namespaces_are_those_that_count(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await annotated_queue(running, "prod", "root/eng/prod", "1/2/8", weight=3)
        await annotated_queue(running, "dev", "root/eng/dev", "1/2/0.5")
        async with scheduling(running.server) as scheduler:
            await submit(running, "one", 3, queue="prod")
            await submit(running, "two", 2, queue="dev")
            await eventually(lambda: sum(map(len, placed(running).values())) == 5)
            await eventually(lambda: status_of(running, "root").get("allocated", {}).get("pods") == "5")
            await settled(scheduler)
        prod, dev, root = (status_of(running, name) for name in ("prod", "dev", "root"))
        assert (prod["weight"], prod["path"], dev["weight"], root["weight"]) == (8, "root/eng/prod", 0.5, 1)
        assert (prod["allocated"]["pods"], dev["allocated"]["pods"]) == ("3", "2")
        assert "pods" not in prod["entitled"]
        (namespace,) = prod["namespaces"]
        assert (namespace["name"], namespace["weight"], namespace["allocated"]["cpu"]) == ("default", 1, "3")
        (inner,) = root["innerNodes"]
        # 3 and 2 of 12 cpu
        assert (inner["path"], inner["weight"], inner["allocated"]["pods"], inner["share"]) == (
            "root/eng",
            2,
            "5",
            0.4167,
        )
        assert "innerNodes" not in prod and "namespaces" not in root

    live(tmp_path, check)


def test_a_status_that_somebody_overwrites_is_set_right(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            await submit(running, "one", 3)
            await eventually(lambda: status_of(running, "default").get("allocated", {}).get("pods") == "3")
            await eventually(lambda: status_of(running, "default").get("running") == 1)
            await settled(scheduler)
            right = status_of(running, "default")
            wrong = {
                "allocated": {"cpu": "99", "nvidia.com/gpu": "7"},
                "entitled": {"example.com/x": "1"},
                "running": 12,
                "weight": 77,
                "innerNodes": [{"path": "root/never"}],
                "namespaces": None,
            }
            async with Session(Access(running.server)) as session:
                answer = await Api(session).patch(
                    resources.QUEUES.raw, "default", {"status": wrong}, subresource="status"
                )
            assert answer["status"]["weight"] == 77
            await eventually(lambda: status_of(running, "default") == right)

    live(tmp_path, check)


def test_the_scheduler_says_what_it_runs_with(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server, schedulers=frozenset({"night", "day"})) as scheduler:
            await eventually(lambda: "scheduler" in status_of(running, "root"))
            first = status_of(running, "root")["scheduler"]
            assert first["names"] == ["day", "night"]
            assert read_config(first["configuration"], first["source"]) == default_config()
            scheduler.reconfigure(read_config('actions: "allocate"', "other.conf"))
            await eventually(lambda: status_of(running, "root")["scheduler"]["source"] == "other.conf")
            assert status_of(running, "root")["scheduler"]["configuration"] == 'actions: "allocate"'
            assert status_of(running, "root")["scheduler"]["defaultQueue"] == ""
            assert "scheduler" not in status_of(running, "default")
            scheduler.reconfigure(read_config('actions: "allocate"\ndefaultQueue: team', "other.conf"))
            await eventually(lambda: status_of(running, "root")["scheduler"]["defaultQueue"] == "team")
            scheduler.reconfigure(read_config('actions: "allocate"', "other.conf"))
            await eventually(lambda: status_of(running, "root")["scheduler"]["defaultQueue"] == "")

    live(tmp_path, check)


def test_queue_status_lists_only_namespaces_with_largest_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_status, "MOST_LISTED", 2)
    shell = Shell(taking_engine(namespaces=True), audited=False)
    shell.node("n", 6)
    shell.child("a")
    for space, tasks in (("few", 1), ("many", 3), ("some", 2)):
        shell.job("a", [(1,)] * tasks, 1, name="j", namespace=space)
    shell.cycle()
    listed = statuses(shell.engine)["a"]["namespaces"]
    assert [(each["name"], each["share"]) for each in listed] == [("many", 0.5), ("some", 0.3333)]
