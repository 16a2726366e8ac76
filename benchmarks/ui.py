"""What the web page costs: memory and CPU of ``pumice ui``, and what each open page adds.

``python -m benchmarks.ui`` starts ``pumice up`` without companions on 1,000 simulated nodes, creates 500 queues and
20,000 pods in 2,000 jobs, and starts ``pumice ui``. A client changes pods and the status of queues all the time, as a
busy scheduler would. The viewers are one process of their own; each reads the stream, and the tree once.
"""

from __future__ import annotations

import argparse
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
from typing import Any

import aiohttp

from benchmarks import kubernetes
from benchmarks.live import cpu
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.transport import Session
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES, Resource

ABREAST = 32
QUEUE_CHANGES, POD_CHANGES = 50, 100
"""Changes a second: of the status of queues, and of pods."""
TASKS = 10


@contextlib.contextmanager
def started_cluster(home: Path, nodes: int) -> Iterator[Path]:
    kubeconfig, log = home / "kubeconfig", home / "up.log"
    port = kubernetes.free_ports(1)[0]
    command = [sys.executable, "-m", "pumice", "up", "--memory", "--port", str(port), "--nodes", str(nodes)]
    command += ["--kubeconfig", str(kubeconfig), "--no-scheduler", "--no-controllers", "--no-ui"]
    with kubernetes.started(log, command) as process:
        kubernetes.await_ready(f"http://127.0.0.1:{port}", "", process, log)
        yield kubeconfig


@contextlib.contextmanager
def started_page(home: Path, kubeconfig: Path) -> Iterator[tuple[int, str]]:
    port, log = kubernetes.free_ports(1)[0], home / "ui.log"
    command = [sys.executable, "-m", "pumice", "ui", "--kubeconfig", str(kubeconfig), "--listen", f"127.0.0.1:{port}"]
    with kubernetes.started(log, command) as process:
        yield process.pid, f"http://127.0.0.1:{port}"


def memory_mib(pid: int) -> dict[str, float]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {
        name: int(text.split(f"{field}:")[1].split()[0]) / 1024
        for name, field in (("rss_mib", "VmRSS"), ("peak_rss_mib", "VmHWM"))
    }


def queue_name(number: int) -> str:
    return f"queue-{number:03d}"


async def fill(kubeconfig: Path, queues: int, jobs: int, nodes: int) -> None:
    async with Session(read_kubeconfig(kubeconfig)) as session:
        api, turns = Api(session), asyncio.Semaphore(ABREAST)

        async def create(resource: Resource[Any], new: dict[str, Any], namespace: str = "") -> None:
            async with turns:
                kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                await api.create(resource, {**kind, **new}, namespace)

        parents = queues // 10
        for level in (range(parents), range(parents, queues)):
            await asyncio.gather(*(create(QUEUES.raw, _queue(number, parents)) for number in level))
        await asyncio.gather(*(create(POD_GROUPS.raw, _group(job, queues, parents), "default") for job in range(jobs)))
        for job in range(jobs):
            await asyncio.gather(*(create(PODS.raw, _pod(job, task, nodes), "default") for task in range(TASKS)))


def _queue(number: int, parents: int) -> dict[str, Any]:
    parent = "root" if number < parents else queue_name(number % parents)
    return {"metadata": {"name": queue_name(number)}, "spec": {"parent": parent, "weight": 1 + number % 7}}


def _group(job: int, queues: int, parents: int) -> dict[str, Any]:
    leaf = parents + job % (queues - parents)
    return {"metadata": {"name": f"job-{job}"}, "spec": {"queue": queue_name(leaf), "minMember": 1}}


def _pod(job: int, task: int, nodes: int) -> dict[str, Any]:
    request = {"cpu": "500m", "memory": "1Gi"}
    spec: dict[str, Any] = {
        "schedulerName": "pumice",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": request}}],
    }
    if task < TASKS * 8 // 10:  # the others wait
        spec["nodeName"] = f"node-{(job * TASKS + task) % nodes:03d}"
    annotations = {"scheduling.k8s.io/group-name": f"job-{job}", "volcano.sh/user": f"user-{job % 50}"}
    return {"metadata": {"name": f"job-{job}-{task}", "annotations": annotations}, "spec": spec}


async def churn(kubeconfig: Path, queues: int, jobs: int) -> None:
    """Change queues and pods, until cancelled."""
    async with Session(read_kubeconfig(kubeconfig)) as session:
        api, number = Api(session), 0
        while True:
            began = time.monotonic()
            number += 1
            for j in range(QUEUE_CHANGES):
                name = queue_name((number * QUEUE_CHANGES + j) % queues)
                amounts = {"cpu": f"{number % 97}", "memory": f"{number % 89}Gi"}
                await api.patch_status(QUEUES.raw, name, {"allocated": amounts, "entitled": amounts, "share": 0.1})
            for j in range(POD_CHANGES):
                job = (number * POD_CHANGES + j) % jobs
                patch = {"metadata": {"annotations": {"volcano.sh/user": f"user-{number % 53}"}}}
                await api.patch(PODS.raw, f"job-{job}-0", patch, "default")
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


async def view(url: str, viewers: int, seconds: float) -> None:
    """Open this many pages for a while; prints what each was sent."""
    sent = 0

    async def page(session: aiohttp.ClientSession) -> None:
        nonlocal sent
        async with session.get(f"{url}/api/tree") as response:
            await response.read()
        async with session.get(f"{url}/api/stream") as response:
            async for line in response.content:
                sent += len(line)

    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=1 << 20) as session:
        pages = [asyncio.create_task(page(session)) for _ in range(viewers)]
        await asyncio.sleep(seconds)
        for each in pages:
            each.cancel()
        await asyncio.gather(*pages, return_exceptions=True)
    print(json.dumps({"bytes_per_viewer_second": sent / max(1, viewers) / seconds}))


async def latencies(url: str, kubeconfig: Path, times: int = 10) -> dict[str, float]:
    """Seconds from a change of a queue's weight to the event that tells it, in the middle of all other changes."""
    found: list[float] = []
    async with Session(read_kubeconfig(kubeconfig)) as session, aiohttp.ClientSession(read_bufsize=4 << 20) as client:
        api = Api(session)
        async with client.get(f"{url}/api/stream?topics=tree") as response:
            for weight in range(20, 20 + times):
                began = time.monotonic()
                await api.patch(QUEUES.raw, queue_name(0), {"spec": {"weight": weight}})
                async for line in response.content:
                    if line.startswith(b"data:") and _has_weight(line, weight):
                        found.append(time.monotonic() - began)
                        break
    return {"latency_median_seconds": sorted(found)[len(found) // 2], "latency_max_seconds": max(found)}


def _has_weight(line: bytes, weight: int) -> bool:
    rows = json.loads(line[5:]).get("changed") or ()
    return any(row["name"] == queue_name(0) and row["weight"] == weight for row in rows)


def first_documents(url: str) -> dict[str, float]:
    """Seconds that the documents of the first page take, one after the other, and their sizes."""
    found: dict[str, float] = {}
    began = time.monotonic()
    for path in ("/api/about", "/api/tree", "/api/jobs", "/api/nodes"):
        request = urllib.request.Request(url + path, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as response:
            found[f"{path.rpartition('/')[2]}_gzip_kib"] = len(response.read()) / 1024
    found["first_documents_seconds"] = time.monotonic() - began
    return found


async def measure(home: Path, queues: int, jobs: int, nodes: int, viewers: list[int], seconds: float) -> None:
    with started_cluster(home, nodes) as kubeconfig:
        await fill(kubeconfig, queues, jobs, nodes)
        print(json.dumps({"nodes": nodes, "queues": queues, "pods": jobs * TASKS}), flush=True)
        began = time.monotonic()
        with started_page(home, kubeconfig) as (pid, url):
            await asyncio.to_thread(await_page, url)
            ready = time.monotonic() - began
            print(json.dumps({"ready_seconds": ready, **memory_mib(pid)} | first_documents(url)), flush=True)
            busy = asyncio.create_task(churn(kubeconfig, queues, jobs))
            await asyncio.sleep(3)
            for number in [0, *viewers]:
                before, start = cpu(pid), time.monotonic()
                command = [sys.executable, "-m", "benchmarks.ui", "--view", url, str(number), str(seconds)]
                process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
                output, _ = await process.communicate()
                used = (cpu(pid) - before) / (time.monotonic() - start)
                figures = {"viewers": number, "cpu": round(used, 4), **memory_mib(pid), **json.loads(output)}
                print(json.dumps(figures), flush=True)
            print(json.dumps(await latencies(url, kubeconfig)), flush=True)
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)


def await_page(url: str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/api/tree") as response:
            if response.status == 200:
                return
        time.sleep(0.1)
    raise TimeoutError(url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--viewers", type=int, nargs="*", default=[1, 200])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--view", nargs=3, metavar=("URL", "VIEWERS", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.view:
        asyncio.run(view(options.view[0], int(options.view[1]), float(options.view[2])))
        return
    with tempfile.TemporaryDirectory(prefix="pumice-ui-", dir=os.environ.get("TMPDIR")) as folder:
        asyncio.run(
            measure(Path(folder), options.queues, options.jobs, options.nodes, options.viewers, options.seconds)
        )


if __name__ == "__main__":
    main()
