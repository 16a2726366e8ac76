"""What requests cost the embedded server, before and after a change: ``python -m benchmarks.server_cost BEFORE AFTER``.

Both are folders with the sources (``src``) of a version. They take turns, a fresh server for each turn, and the least
processor time of all turns counts: a busy machine can only add to it. Measured are creates and binds of pods, creates
of pods that watchers follow, the time from the request to the event at a watcher, and the resident memory before the
first request.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import kubernetes

TURNS, PODS, WATCHERS = 5, 2000, 20
NAMESPACE = "/api/v1/namespaces/default"
HOST = "127.0.0.1"


@contextlib.contextmanager
def served(sources: Path) -> Iterator[tuple[int, int]]:
    """A server of a version, without nodes, scheduler and controllers: its process and port."""
    with tempfile.TemporaryDirectory(prefix="pumice-cost-") as folder:
        (port,) = kubernetes.free_ports(1)
        command = [
            sys.executable,
            "-m",
            "pumice",
            "up",
            "--data",
            f"{folder}/data",
            "--nodes",
            "0",
            "--port",
            str(port),
        ]
        command += ["--kubeconfig", f"{folder}/kubeconfig", "--no-scheduler", "--no-controllers"]
        command += ["--no-ui"] if (sources / "pumice" / "ui").exists() else []
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(sources)}
            )
        try:
            kubernetes.await_ready(f"http://{HOST}:{port}", "", process, log)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait()


def processor_seconds(process: int) -> float:
    """What the threads of a process have used so far."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def resident_megabytes(process: int) -> float:
    """The resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def measured(sources: Path) -> dict[str, float]:
    """One turn: microseconds for a request, and MB."""
    with served(sources) as (process, port), contextlib.ExitStack() as stack:
        found = {"idle MB": resident_megabytes(process)}
        client = http.client.HTTPConnection(HOST, port)
        stack.callback(client.close)
        _write(client, 50, "warm")
        found["create"] = _cost(process, lambda: _write(client, PODS, "plain"))
        found["bind"] = _cost(process, lambda: _bind(client, PODS, "plain"))
        for _ in range(WATCHERS):
            watcher = http.client.HTTPConnection(HOST, port)
            stack.callback(watcher.close)
            watcher.request("GET", f"{NAMESPACE}/pods?watch=true&labelSelector=none%3Dsuch")
            watcher.getresponse()
        found["create, watched"] = _cost(process, lambda: _write(client, PODS, "watched"))
        found["event"] = _event_latency(client, port, stack) * 1e6
        return found


def _cost(process: int, work: Callable[[], None]) -> float:
    before = processor_seconds(process)
    work()
    return (processor_seconds(process) - before) / PODS * 1e6


def _event_latency(client: http.client.HTTPConnection, port: int, stack: contextlib.ExitStack) -> float:
    """The median time from sending a pod to reading its event, in seconds."""
    watcher = http.client.HTTPConnection(HOST, port)
    stack.callback(watcher.close)
    watcher.request("GET", f"{NAMESPACE}/pods?watch=true&labelSelector=app%3Dseen")
    events = watcher.getresponse()
    taken = []
    for number in range(PODS // 10):
        begun = time.perf_counter()
        _write(client, 1, f"seen-{number}", label="seen")
        events.readline()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _post(client: http.client.HTTPConnection, path: str, document: object) -> None:
    client.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
    answer = client.getresponse()
    content = answer.read()
    if answer.status != http.HTTPStatus.CREATED:
        raise RuntimeError(f"{path}: {answer.status} {content[:300]!r}")


def _write(client: http.client.HTTPConnection, count: int, prefix: str, label: str = "x") -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for number in range(count):
        about = {"name": f"{prefix}-{number}", "labels": {"app": label}}
        _post(client, f"{NAMESPACE}/pods", {"metadata": about, "spec": {"containers": [container]}})


def _bind(client: http.client.HTTPConnection, count: int, prefix: str) -> None:
    for number in range(count):
        name = f"{prefix}-{number}"
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
        _post(client, f"{NAMESPACE}/pods/{name}/binding", body)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_cost", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    least: dict[str, list[float]] = {}
    for _ in range(given.turns):
        for place, sources in enumerate((given.before, given.after)):
            for name, value in measured(sources.resolve()).items():
                kept = least.setdefault(name, [value, value] if place else [value, float("inf")])
                kept[place] = min(kept[place], value)
    for name, (before, after) in least.items():
        unit = "" if name.endswith("MB") else " µs"
        print(f"{name:16} {before:8.1f}{unit}  {after:8.1f}{unit}  {after / before - 1:+.1%}")


if __name__ == "__main__":
    main()
