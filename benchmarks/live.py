"""From end to end: how many pods a second go from created to bound, and what the scheduler spends on each.

Three processes as in production, over HTTP on loopback: ``pumice up`` with its data on disk and simulated nodes,
``pumice scheduler``, and a client that creates pods as quickly as it is answered and watches until all are bound. The
overhead of the service is the CPU time of its process, engine and all, by pod; what the engine alone spends is in its
own metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import yaml

from benchmarks import kubernetes, sampled
from benchmarks.apiserver_load import Server
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.transport import Session
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES, Resource

WORKLOAD = yaml.safe_load((Path(__file__).parent / "workloads" / "live.yaml").read_text())
PATIENCE = 300.0
SAMPLED = {
    "server": (*sampled.SERVER_PARTS, sampled.OTHER),
    "scheduler": (*sampled.SCHEDULER_PARTS, sampled.OTHER),
}
"""The parts of the processes, without their start."""
NAMESPACE = "default"


class _About(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _About
    spec: _Spec


_pods = msgspec.json.Decoder(_Pod)


def parts() -> dict[str, float]:
    """Where the CPU time goes: percent of that of server and scheduler, by part. Sampling slows both down a little."""
    with tempfile.TemporaryDirectory(prefix="pumice-parts-") as folder:
        created_to_bound(Path(folder))
        figures: dict[str, float] = {}
        for process, known in SAMPLED.items():
            samples = json.loads((Path(folder) / process).read_text())
            whole = sum(samples.get(part, 0) for part in known)
            figures |= {f"{process}_{part}": 100 * samples.get(part, 0) / whole for part in known}
    return figures


def created_to_bound(samples: Path | None = None) -> dict[str, float]:
    """One run on a fresh cluster; ``samples``: a folder for where the CPU time of its processes goes."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-live-")))
        server, kubeconfig = stack.enter_context(_server(home, _program(samples and samples / "server")))
        program = _program(samples and samples / "scheduler")
        scheduler, metrics = stack.enter_context(_scheduler(home, kubeconfig, program))
        before = cpu(scheduler), cpu(server)
        seconds, waits = asyncio.run(_load(kubeconfig))
        figures = {"scheduler": cpu(scheduler) - before[0], "server": cpu(server) - before[1]}
        engine = _engine_seconds(metrics)
        asyncio.run(_all_running(kubeconfig))
        running = {"scheduler": cpu(scheduler) - before[0], "server": cpu(server) - before[1]}
    pods = len(waits)
    waits.sort()
    return {
        "placements": pods,
        "seconds": seconds,
        "pods_per_second": pods / seconds,
        "latency_ms": median(waits) * 1000,
        "latency_p99_ms": waits[pods * 99 // 100] * 1000,
        "overhead_ms": figures["scheduler"] * 1000 / pods,
        "engine_ms": engine * 1000 / pods,
        "server_ms": figures["server"] * 1000 / pods,
        "running_overhead_ms": running["scheduler"] * 1000 / pods,
        "running_server_ms": running["server"] * 1000 / pods,
    }


def _program(samples: Path | None) -> list[str]:
    return [sys.executable, "-m", *(["pumice"] if samples is None else ["benchmarks.sampled", str(samples)])]


@contextlib.contextmanager
def _server(home: Path, program: list[str]) -> Iterator[tuple[int, Path]]:
    """``pumice up`` without companions: its process and its kubeconfig."""
    kubeconfig, log, nodes = home / "kubeconfig", home / "up.log", WORKLOAD["nodes"]
    port = kubernetes.free_ports(1)[0]
    command = [*program, "up", "--data", str(home / "data"), "--port", str(port)]
    command += ["--nodes", str(nodes["count"]), "--node-capacity", nodes["capacity"]]
    command += ["--kubeconfig", str(kubeconfig), "--no-scheduler", "--no-controllers", "--no-ui"]
    with kubernetes.started(log, command) as process:
        kubernetes.await_ready(f"http://127.0.0.1:{port}", "", process, log)
        yield process.pid, kubeconfig


@contextlib.contextmanager
def _scheduler(home: Path, kubeconfig: Path, program: list[str]) -> Iterator[tuple[int, str]]:
    """``pumice scheduler``, when it sees the cluster: its process, and where its metrics are."""
    port, log = kubernetes.free_ports(1)[0], home / "scheduler.log"
    command = [*program, "scheduler", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-address", f"127.0.0.1:{port}"]
    with kubernetes.started(log, command) as process:
        url = f"http://127.0.0.1:{port}"
        kubernetes.await_ready(url, "", process, log)
        yield process.pid, f"{url}/metrics"


async def _load(kubeconfig: Path) -> tuple[float, list[float]]:
    """Create all objects; returns the seconds until all pods were bound, and for each pod from request to binding."""
    access, in_flight = read_kubeconfig(kubeconfig), WORKLOAD["inFlight"]
    server = Server(access.server)
    async with Session(access) as session:
        api = Api(session)
        await server.spread((post(server, QUEUES, queue(number)) for number in range(WORKLOAD["queues"])), in_flight)
        revision = (await api.list(PODS.raw)).revision
        requested: dict[str, float] = {}
        bound: dict[str, float] = {}
        watching = asyncio.create_task(note_bindings(api, revision, bound))

        def submit() -> Iterator[bytes]:
            for job in range(WORKLOAD["jobs"]):
                yield post(server, POD_GROUPS, group(job))
                for task in range(WORKLOAD["tasksPerJob"]):
                    pod = new_pod(job, task)
                    requested[pod["metadata"]["name"]] = time.monotonic()
                    yield post(server, PODS, pod)

        began = time.monotonic()
        await server.spread(submit(), in_flight)
        async with asyncio.timeout(PATIENCE):
            await watching
    return max(bound.values()) - began, [at - requested[name] for name, at in bound.items()]


async def _all_running(kubeconfig: Path) -> None:
    """Wait until the simulated nodes run all pods: some of the work for a pod comes after its binding."""
    async with Session(read_kubeconfig(kubeconfig)) as session, asyncio.timeout(PATIENCE):
        while (await Api(session).list(PODS.raw, ListOptions(fields="status.phase!=Running"))).items:
            await asyncio.sleep(0.5)


async def note_bindings(api: Api, revision: str, bound: dict[str, float]) -> None:
    """Note when each pod is first seen on a node, until all are."""
    async with contextlib.aclosing(api.events(PODS.raw, revision)) as batches:
        async for batch in batches:
            now = time.monotonic()
            for kind, raw in batch:
                if kind == "BOOKMARK":  # no pod has this event
                    continue
                pod = _pods.decode(raw)
                if pod.spec.node_name:
                    bound.setdefault(pod.metadata.name, now)
            if len(bound) == WORKLOAD["jobs"] * WORKLOAD["tasksPerJob"]:
                return


def post(server: Server, resource: Resource[Any], document: dict[str, Any]) -> bytes:
    """The request that creates an object."""
    return server.request("POST", resource.path(document["metadata"].get("namespace", "")), document)


def queue(number: int) -> dict[str, Any]:
    about = {"name": f"q{number}"}
    spec = {"parent": "root", "weight": 1 + number % 3}
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": about, "spec": spec}


def group(job: int) -> dict[str, Any]:
    about = {"name": f"j{job}", "namespace": NAMESPACE}
    spec = {"minMember": WORKLOAD["minMember"], "queue": f"q{job % WORKLOAD['queues']}"}
    return {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": about, "spec": spec}


def new_pod(job: int, task: int) -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": f"j{job}"}
    about = {"name": f"j{job}-{task}", "namespace": NAMESPACE, "annotations": annotations}
    container = {"name": "c", "image": "x", "resources": {"requests": WORKLOAD["request"]}}
    spec = {"schedulerName": "pumice", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def cpu(process: int) -> float:
    """CPU seconds of a process so far, in user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _engine_seconds(metrics: str) -> float:
    """The times of the parts of the engine's cycles; the rest of a cycle is decoding and writing."""
    with urllib.request.urlopen(metrics, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    parts = [line for line in lines if line.startswith("pumice_cycle_part_seconds_total{") and "around" not in line]
    return sum(float(line.rpartition(" ")[2]) for line in parts)
