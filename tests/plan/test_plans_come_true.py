"""Plans against a live scheduler in this process: random clusters, random changes, and what then happens.

``tests/live/test_plan_predictions.py`` does the same with the processes of ``pumice up`` and Volcano Jobs, which takes
longer. Here jobs are PodGroups with pods that nothing creates again. The scheduler writes a decision log, and a
simulation of the log must make the same decisions.

A plan is about a whole change. A change of several queues is written one queue after the other, and a scheduler that
sees one of two evicts what neither the old nor the new tree asks for. So it runs no cycle until all of it is there.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.audit.certificate import audit
from pumice.cli.cluster.cluster_command import Cluster
from pumice.cli.plan.plan_sources import cluster_basis
from pumice.config.load import read_config
from pumice.decision_log.writer import DecisionLog
from pumice.embedded.embedded_cluster import with_pumice
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.engine.decisions import Bind, Evict
from pumice.model.specs import TaskStatus
from pumice.plan.change_file import Change
from pumice.plan.plan_report import make_plan
from pumice.scheduler import loop
from pumice.scheduler.loop import Cycle, Scheduler
from pumice.sim.manifest_files import Manifest
from tests.support.live_cluster import GROUPS, QUEUES, scheduling
from tests.support.log_simulations import difference

Object = dict[str, Any]
CONFIG = f"""\
{DEFAULT_CONFIG}configurations:
- name: reclaim
  arguments: {{reclaim.patience: 0, reclaim.minRuntime: 0}}
"""
NODES = ("cpu=7,memory=32Gi", "cpu=5,memory=16Gi", "cpu=8,memory=24Gi")
API = "scheduling.volcano.sh/v1beta1"
ON_THE_WAY = (TaskStatus.PIPELINED, TaskStatus.BINDING, TaskStatus.RELEASING)


@pytest.mark.parametrize("seed", range(2))
def test_plan_comes_true(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PERIOD", 0.05)
    assert judge(seed, tmp_path) == []


def test_plan_comes_true_if_the_objects_are_written_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PERIOD", 0.05)
    assert judge(0, tmp_path, pause=0.3) == []  # a scheduler that saw the first of its three objects would evict


@pytest.mark.long
def test_two_hundred_plans_come_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PERIOD", 0.05)
    wrong, moved = [], 0
    for seed in range(1000, 1200):
        (place := tmp_path / str(seed)).mkdir()
        found: Counter[str] = Counter()
        wrong += judge(seed, place, found)
        moved += bool(found)
    assert moved > 50, f"only {moved} changes did anything"
    assert not wrong, "\n".join(wrong)


def judge(seed: int, place: Path, moves: Counter[str] | None = None, *, pause: float = 0) -> list[str]:
    """Plan a change and make it, with a pause before each object; what was not as planned."""
    found: list[str] = []

    async def check(running: RunningCluster, scheduler: Scheduler) -> None:
        rng, watch = random.Random(seed), Watch(scheduler)
        queues = random_queues(rng)
        for queue in queues:
            await running.api.create(QUEUES, "", queue)
        leaves = [queue["metadata"]["name"] for queue in queues if not is_parent(queue, queues)]
        for number in range(rng.randint(6, 10)):
            await submit(running, rng, f"j{number}", rng.choice(leaves))
        await watch.rest()
        change = random_change(rng, queues, len(leaves))
        plan = (await asyncio.to_thread(planned, place / "kubeconfig", change)).values
        assert not plan["refused"], plan["refused"]
        before, seen = watch.running(), len(watch.evicted)
        with standing_still(scheduler):
            await arrival(scheduler, await make(running, change, pause))
        await watch.rest()
        evicted, expected = watch.evicted[seen:], before.copy()
        if sorted(evicted) != sorted(one["task"] for one in plan["evicted"]):
            found.append(f"{seed}: evicted {sorted(evicted)}; planned {sorted(one['task'] for one in plan['evicted'])}")
        expected.update({job: one["running"]["after"] - before[job] for job, one in plan["jobs"].items()})
        if +expected != watch.running():
            found.append(f"{seed}: {dict(watch.running())} run; planned {dict(+expected)}")
        if moves is not None:
            moves.update(evicted, started=len(plan["started"]))

    live(place, random.Random(seed), check)
    if wrong := difference(place / "log", conditions=False):
        found.append(f"{seed}: the log of the scheduler, simulated: {wrong}")
    found += [f"{seed}: audit: {finding}" for finding in audit(place / "log").findings.kept]
    return found


def planned(kubeconfig: Path, change: list[Object]) -> Any:
    cluster = Cluster(kubeconfig, "", "default", everywhere=False)
    try:
        basis = cluster_basis(cluster, None)
    finally:
        cluster.close()
    return make_plan(basis, Change(manifests=[Manifest("change.yaml", one) for one in change]))


class Watch:
    """What a scheduler decides."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._quiet = 0
        self.evicted: list[str] = []
        scheduler.watchers.append(self._see)

    def _see(self, cycle: Cycle) -> None:
        moved = [one for one in cycle.decisions if isinstance(one, Bind | Evict)]
        self.evicted += [one.task for one in moved if isinstance(one, Evict)]
        # On a busy machine a victim may take many cycles to leave, and a binding to be confirmed.
        tasks = cycle.engine.state.tasks.values()
        on_the_way = any(task.status in ON_THE_WAY for task in tasks)
        self._quiet = 0 if moved or cycle.events or on_the_way else self._quiet + 1

    async def rest(self) -> None:
        """Wait until several cycles have brought nothing, and nobody is about to start or to leave."""
        self._quiet = 0
        while self._quiet < 8:
            await asyncio.sleep(0.02)

    def running(self) -> Counter[str]:
        jobs = self._scheduler.engine.state.jobs.values()
        return Counter({job.key: job.running for job in jobs if job.running})


def live(place: Path, rng: random.Random, check: Callable[[RunningCluster, Scheduler], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = [*make_nodes(rng.randint(1, 3), parse_capacity(rng.choice(NODES)))]
        config = read_config(CONFIG, "config")
        settings = ServerSettings(data=None, kubeconfig=place / "kubeconfig", nodes=nodes, speed=100.0)
        async with (
            running_cluster(with_pumice(settings)) as running,
            asyncio.timeout(300),
            scheduling(running.server, config, decision_log=DecisionLog(place / "log")) as scheduler,
        ):
            await check(running, scheduler)

    asyncio.run(run())


@contextmanager
def standing_still(scheduler: Scheduler) -> Iterator[None]:
    """Let a scheduler gather changes but run no cycle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "cycle", lambda: None)
        yield


async def arrival(scheduler: Scheduler, revision: int) -> None:
    """Wait until a scheduler has seen the queues of a revision."""
    (queues,) = (informer for informer in scheduler.informers if informer.resource.plural == "queues")
    while int(queues.revision or 0) < revision:
        await asyncio.sleep(0.01)


async def make(running: RunningCluster, change: list[Object], pause: float) -> int:
    """Write the objects of a change; returns the revision of the last."""
    revision = 0
    for one in change:
        await asyncio.sleep(pause)
        fields = one["spec"]

        def edit(stored: Object, fields: Object = fields) -> None:
            stored["spec"].update(fields)

        written = await running.api.modify(QUEUES, "", one["metadata"]["name"], edit)
        if written is None:
            written = await running.api.create(QUEUES, "", one)
        revision = int(written["metadata"]["resourceVersion"])
    return revision


# ---- random objects ------------------------------------------------------------------------------------------------


def random_queues(rng: random.Random) -> list[Object]:
    found = []
    for org in "abc"[: rng.randint(2, 3)]:
        found.append(queue(org, "root", rng.randint(1, 3)))
        found += [queue(f"{org}{number}", org, rng.randint(1, 3)) for number in range(rng.choice([0, 2, 3]))]
    return found


def queue(name: str, parent: str, weight: int, **more: object) -> Object:
    spec = {"parent": parent, "weight": weight, **more}
    return {"apiVersion": API, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def is_parent(one: Object, queues: list[Object]) -> bool:
    return any(other["spec"]["parent"] == one["metadata"]["name"] for other in queues)


def random_change(rng: random.Random, queues: list[Object], leaves: int) -> list[Object]:
    """Other weights and limits for one to three queues; sometimes a new queue."""
    changed = []
    for one in rng.sample(queues, rng.randint(1, min(3, len(queues)))):
        about, spec = one["metadata"], one["spec"]
        more: dict[str, object] = {"reclaimable": False} if rng.random() < 0.15 else {}
        if rng.random() < 0.15:
            more = {"capability": {"cpu": str(rng.randint(2, 8))}}
        changed.append(queue(about["name"], spec["parent"], rng.randint(1, 6), **more))
    if rng.random() < 0.2:
        changed.append(queue("new", "root", rng.randint(1, 4)))
    return changed


async def submit(running: RunningCluster, rng: random.Random, name: str, queue_name: str) -> None:
    size = rng.randint(1, 5)
    least = rng.choice([1, 1, 1, size])
    spec = {"minMember": least, "queue": queue_name}
    await running.api.create(GROUPS, "default", {"metadata": {"name": name}, "spec": spec})
    cpu, memory = rng.choice([(1, 1), (1, 4), (2, 1), (2, 6), (3, 2)])
    for number in range(size):
        about = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        request = {"requests": {"cpu": str(cpu), "memory": f"{memory}Gi"}}
        pod = {"schedulerName": "pumice", "containers": [{"name": "c", "image": "x", "resources": request}]}
        await running.api.create("pods", "default", {"metadata": about, "spec": pod})
