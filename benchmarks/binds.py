"""The binding rate of the scheduler, compared with the rate that a real Kubernetes API allows.

5,000 pods wait on 500 nodes (the workload of ``live``). A bare client binds them and does nothing else: it knows the
nodes in advance, watches nothing, and keeps a number of requests in flight. Then ``pumice scheduler`` starts with the
same pods, created again, on the same server: it lists them, decides, watches the result, and writes the status of
podgroups and queues behind its bindings. Its rate limit is out of the way. Each runs in its own process; its rate is
measured from its first binding to its last, by a third process. The two alternate, once for each number of requests in
flight, and the best rate of each counts, because the load of the machine varies.

python -m benchmarks.binds KUBECONFIG IN_FLIGHT      the bare client
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import yaml

from benchmarks import kubernetes, live
from kubesim.kubelet.node_template import fill_in_node, make_nodes, parse_capacity
from pumice.embedded.identity import PUMICE
from pumice.install.apply import apply
from pumice.install.manifests import definitions, first_queues
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access, read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.client.transport import Limits, Session
from pumice.kube.decode.pods import PLACED_BY
from pumice.kube.resources import NODES, POD_GROUPS, PODS, QUEUES, Document, Resource

IN_FLIGHT = (16, 32, 64)
CREATORS = 32
PODS_IN_ALL = live.WORKLOAD["jobs"] * live.WORKLOAD["tasksPerJob"]

log = logging.getLogger(__name__)


def bind_rate() -> dict[str, float]:
    """One run on a fresh server: bindings a second of the bare client and of the scheduler, and their ratio."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-binds-")))
        endpoint = stack.enter_context(kubernetes.running())
        access = Access(endpoint.url, token=endpoint.token, verify=False)
        asyncio.run(_furnish(access))
        kubeconfig = _kubeconfig(home, access)
        scheduler = [sys.executable, "-m", "pumice", "scheduler", "--metrics-address", "", "--kubeconfig", kubeconfig]
        scheduler += ["--write-rate", "100000"]  # the limit by default is less than many cores can do
        bare, scheduled = [], []
        for number in IN_FLIGHT:
            client = [sys.executable, "-m", "benchmarks.binds", kubeconfig, str(number)]
            bare.append(asyncio.run(_watched(endpoint, access, client, home / "bare.log")))
            scheduled.append(asyncio.run(_watched(endpoint, access, scheduler, home / "scheduler.log")))
    best_bare, best = (max(each, key=lambda one: one["binds_per_second"]) for each in (bare, scheduled))
    return {
        **best,
        **{f"bare_{name}": value for name, value in best_bare.items()},
        **{f"bare_{number}": one["binds_per_second"] for number, one in zip(IN_FLIGHT, bare, strict=True)},
        **{f"beside_{number}": one["binds_per_second"] for number, one in zip(IN_FLIGHT, scheduled, strict=True)},
        "placements": PODS_IN_ALL,
        "percent_of_bare": 100 * best["binds_per_second"] / best_bare["binds_per_second"],
    }


async def _watched(endpoint: kubernetes.Endpoint, access: Access, command: list[str], said: Path) -> dict[str, float]:
    """Let a process bind all pods; returns its rate, and the CPU time of process and server for each binding."""
    bound: dict[str, float] = {}
    async with _filled(access), Session(access) as session:
        api = Api(session)
        revision = (await api.list(PODS.raw)).revision
        watching = asyncio.create_task(live.note_bindings(api, revision, bound))
        began = time.monotonic()
        with kubernetes.started(said, command) as process:
            async with asyncio.timeout(live.PATIENCE):
                while not bound:
                    if process.poll() is not None:
                        raise RuntimeError(f"{command[2]} ended with {process.returncode}:\n{said.read_text()[-2000:]}")
                    await asyncio.sleep(0.005)
                before, server = live.cpu(process.pid), _server_cpu(endpoint)
                await watching
            spent, server = live.cpu(process.pid) - before, _server_cpu(endpoint) - server
    first, last = min(bound.values()), max(bound.values())
    return {
        "binds_per_second": (PODS_IN_ALL - 1) / (last - first),
        "client_ms": spent * 1000 / PODS_IN_ALL,
        "server_ms": server * 1000 / PODS_IN_ALL,
        "seconds": last - began,
    }


async def bind_all(access: Access, in_flight: int) -> None:
    """The bare client: bind all pods there are, to one node after the other."""
    async with Session(access, Limits(in_flight=in_flight)) as session:
        api = Api(session)
        pending = [pod["metadata"] for pod in (await api.list(PODS.raw)).items]
        targets = zip(pending, cycle(f"node-{number:03d}" for number in range(live.WORKLOAD["nodes"]["count"])))

        async def bind() -> None:
            for about, node in targets:
                placed = {PLACED_BY: "pumice"}
                await api.bind(about["namespace"], about["name"], node, uid=about["uid"], annotations=placed)

        await asyncio.gather(*(bind() for _ in range(in_flight)))
        await asyncio.sleep(live.PATIENCE)  # to read its CPU time, and to stop it


def _server_cpu(endpoint: kubernetes.Endpoint) -> float:
    """CPU seconds of the API server and its etcd so far."""
    return sum(map(live.cpu, endpoint.processes))


# ---- what is there ---------------------------------------------------------------------------------------


async def _furnish(access: Access) -> None:
    """The CRDs, the queues and the nodes."""
    capacity = parse_capacity(live.WORKLOAD["nodes"]["capacity"])
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    hosts = make_nodes(live.WORKLOAD["nodes"]["count"], capacity)
    for number, host in enumerate(hosts):
        fill_in_node(host, number, now, capacity, PUMICE)
    for line in apply(Client(access), [*definitions(), *first_queues()]):
        log.info("%s", line)
    async with Session(access) as session:
        api = Api(session)
        await _create(api, _of(QUEUES, map(live.queue, range(live.WORKLOAD["queues"]))))
        await _create(api, _of(NODES, hosts))


@contextlib.asynccontextmanager
async def _filled(access: Access) -> AsyncIterator[None]:
    """All pods, with their groups, for the time of a ``with`` block."""
    jobs, tasks = range(live.WORKLOAD["jobs"]), range(live.WORKLOAD["tasksPerJob"])
    async with Session(access, replace(Limits(), timeout=120.0)) as session:
        api = Api(session)
        await _create(api, _of(POD_GROUPS, map(live.group, jobs)))
        await _create(api, _of(PODS, (live.new_pod(job, task) for job in jobs for task in tasks)))
        yield
        for resource in (PODS, POD_GROUPS):
            body = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
            await session.call("DELETE", resource.path(live.NAMESPACE), body=body)


def _of(resource: Resource[Any], documents: Any) -> Iterator[tuple[Resource[Document], Document]]:
    return ((resource.raw, document) for document in documents)


async def _create(api: Api, wanted: Iterator[tuple[Resource[Document], Document]]) -> None:
    async def create() -> None:
        for resource, new in wanted:
            await api.create(resource, new)

    await asyncio.gather(*(create() for _ in range(CREATORS)))


def _kubeconfig(home: Path, access: Access) -> str:
    path = home / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {"server": access.server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "real", "user": {"token": access.token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return str(path)


if __name__ == "__main__":
    asyncio.run(bind_all(read_kubeconfig(Path(sys.argv[1])), int(sys.argv[2])))
