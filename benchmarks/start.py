"""Start, takeover and idling of ``pumice scheduler`` on a full cluster: 50,000 running pods on 5,000 nodes.

``pumice up`` runs with its data on disk. Its pods name their nodes, and simulated kubelets run them; a scheduler has no
part in that. Then:

``start``     from the start of the process to its first decision, with the parts that the scheduler logs
``takeover``  with two replicas: from SIGTERM to the leader to the first decision of the other one; and from SIGKILL,
              where the lease has to run out first
``idle``      the CPU time of the scheduler when nothing changes, in percent of a core

The decision is the binding of one more pod, a smaller one that still fits. Times of the parts are wall-clock, beside
the CPU time of the process, because other load on the machine stretches them. The cluster is made once in a folder
that ``PUMICE_BENCH_DATA`` names, if it is set, and used again by the next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks import kubernetes
from benchmarks.apiserver_load import Server
from benchmarks.live import NAMESPACE, cpu, post
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.transport import Session
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES

WORKLOAD = yaml.safe_load((Path(__file__).parent / "workloads" / "start.yaml").read_text())
PATIENCE = 900.0
SETTLED_SECONDS = 20.0
"""After the first decision, before idling is measured: statuses and Events are written by then."""
IDLE_SECONDS = 30.0
LATE = "late"
PARTS = re.compile(r"Completed the first cycle: (.*)")


def started_scheduler() -> dict[str, float]:
    """One start on the full cluster, and the idle time after it."""
    with _cluster() as (home, kubeconfig):
        began = time.monotonic()
        with _scheduler(home / "first.log", kubeconfig) as process:
            seconds = asyncio.run(_first_decision(kubeconfig, began))
            spent = cpu(process.pid)
            time.sleep(SETTLED_SECONDS)
            before = cpu(process.pid)
            time.sleep(IDLE_SECONDS)
            idle = cpu(process.pid) - before
            memory = kubernetes.rss_kib(process.pid) / 1024
        parts = _parts(home / "first.log")
    return {
        "seconds": seconds,
        "cpu_seconds": spent,
        **parts,
        "idle_percent": 100 * idle / IDLE_SECONDS,
        "rss_mib": memory,
    }


def takeover() -> dict[str, float]:
    """A leader that stops, and one that is killed: seconds to the first decision of the replica that waited."""
    figures = {}
    with _cluster() as (home, kubeconfig):
        for signal in ("stopped", "killed"):
            with contextlib.ExitStack() as stack:
                leader = stack.enter_context(_scheduler(home / "leader.log", kubeconfig, "--leader-elect"))
                asyncio.run(_first_decision(kubeconfig, time.monotonic()))
                other = stack.enter_context(_scheduler(home / f"{signal}.log", kubeconfig, "--leader-elect"))
                time.sleep(SETTLED_SECONDS)
                before, began = cpu(other.pid), time.monotonic()
                if signal == "killed":
                    leader.kill()
                else:
                    leader.terminate()
                leader.wait()
                asyncio.run(_renew(kubeconfig))
                figures[f"{signal}_seconds"] = asyncio.run(_first_decision(kubeconfig, began))
                figures[f"{signal}_cpu_seconds"] = cpu(other.pid) - before
    return figures


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[Path, Path]]:
    """``pumice up`` with the full cluster: a folder for logs, and its kubeconfig."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-start-")))
        data = Path(os.environ.get("PUMICE_BENCH_DATA") or home / "data")
        kubeconfig, log = home / "kubeconfig", home / "up.log"
        port, nodes, existed = kubernetes.free_ports(1)[0], WORKLOAD["nodes"], data.exists()
        command = [sys.executable, "-m", "pumice", "up", "--data", str(data), "--port", str(port)]
        if not existed:
            command += ["--nodes", str(nodes["count"]), "--node-capacity", nodes["capacity"]]
        command += ["--kubeconfig", str(kubeconfig), "--no-scheduler", "--no-controllers", "--no-ui"]
        process = stack.enter_context(kubernetes.started(log, command))
        kubernetes.await_ready(f"http://127.0.0.1:{port}", "", process, log, PATIENCE)
        asyncio.run(_fill(kubeconfig, new=not existed))
        yield home, kubeconfig


@contextlib.contextmanager
def _scheduler(log: Path, kubeconfig: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "pumice", "scheduler", "--kubeconfig", str(kubeconfig), "--metrics-address", ""]
    with kubernetes.started(log, [*command, *more], PUMICE_LOG="info") as process:
        yield process


def _parts(log: Path) -> dict[str, float]:
    """The parts of the start, from the scheduler's log: seconds, by name."""
    found = PARTS.search(log.read_text())
    if found is None:
        raise RuntimeError(f"the scheduler logged no first cycle:\n{log.read_text()[-2000:]}")
    named = (part.partition("=") for part in found[1].split())
    return {name: float(value.removesuffix("s")) for name, _, value in named}


# ---- objects -----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _api(kubeconfig: Path) -> AsyncIterator[Api]:
    async with Session(read_kubeconfig(kubeconfig)) as session:
        yield Api(session)


async def _fill(kubeconfig: Path, *, new: bool) -> None:
    """Create all objects, if they are new, and wait until all pods run."""
    server, jobs, tasks = Server(read_kubeconfig(kubeconfig).server), WORKLOAD["jobs"], WORKLOAD["tasksPerJob"]

    def objects() -> Iterator[bytes]:
        yield from (post(server, QUEUES, _queue(number)) for number in range(WORKLOAD["queues"]))
        yield from (post(server, POD_GROUPS, _group(f"j{job}", job)) for job in range(jobs))
        for job in range(jobs):
            for task in range(tasks):
                node = (job * tasks + task) % WORKLOAD["nodes"]["count"]
                yield post(server, PODS, _pod(f"j{job}-{task}", f"j{job}", node, WORKLOAD["request"]))

    if new:
        await server.spread(objects(), WORKLOAD["inFlight"])
    await _remove_late(kubeconfig)
    async with _api(kubeconfig) as api, asyncio.timeout(PATIENCE):
        while (await api.list(PODS.raw, ListOptions(fields="status.phase!=Running"))).items:
            await asyncio.sleep(2.0)
    await _renew(kubeconfig)


async def _remove_late(kubeconfig: Path) -> None:
    async with _api(kubeconfig) as api:
        while True:
            try:
                await api.delete(PODS.raw, LATE, NAMESPACE, grace=0)
            except ApiError as error:
                if not error.not_found:
                    raise
                return
            await asyncio.sleep(0.2)


async def _renew(kubeconfig: Path) -> None:
    """Put a pod in the place of the one whose binding is the first decision."""
    await _remove_late(kubeconfig)
    async with _api(kubeconfig) as api:
        try:
            await api.create(POD_GROUPS.raw, _group(LATE, 0, members=1, phase="Inqueue"))
        except ApiError as error:
            if not error.already_exists:
                raise
        await api.create(PODS.raw, _pod(LATE, LATE, None, WORKLOAD["late"]))


async def _first_decision(kubeconfig: Path, began: float) -> float:
    """Seconds until the pod that waits is bound."""
    async with _api(kubeconfig) as api, asyncio.timeout(PATIENCE):
        while not (await api.get(PODS.raw, LATE, NAMESPACE))["spec"].get("nodeName"):
            await asyncio.sleep(0.02)
    return time.monotonic() - began


def _queue(number: int) -> dict[str, Any]:
    about, spec = {"name": f"q{number}"}, {"parent": "root", "weight": 1 + number % 3}
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": about, "spec": spec}


def _group(name: str, number: int, members: int = 0, phase: str = "Running") -> dict[str, Any]:
    spec = {"minMember": members or WORKLOAD["tasksPerJob"], "queue": f"q{number % WORKLOAD['queues']}"}
    about = {"name": name, "namespace": NAMESPACE}
    status = {"phase": phase, "running": 0 if members else WORKLOAD["tasksPerJob"]}
    return {
        "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": about, "spec": spec, "status": status,
    }  # fmt: skip


def _pod(name: str, group: str, node: int | None, request: dict[str, str]) -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": group, "pumice.dev/placed-by": "pumice"}
    about = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    container = {"name": "c", "image": "x", "resources": {"requests": request}}
    spec = {"schedulerName": "pumice", "containers": [container]}
    if node is not None:
        spec["nodeName"] = f"node-{node:03d}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
