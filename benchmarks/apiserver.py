"""The embedded server beside a real kube-apiserver with etcd, fsync on: the same load client, alternating in one run.

Without ``K8S_BIN`` only the embedded server is measured. Each server stores its objects in a new folder on disk and
acknowledges after fsync. Both use TLS (kube-apiserver always, the embedded server with a token). Go's garbage collector
has its default setting (GOGC unset). Keys of figures are ``pumice_*`` and ``kube-apiserver_*``, the latter with etcd.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import kubernetes
from benchmarks.apiserver_load import WORKLOAD
from benchmarks.kubernetes import Endpoint

TOKEN = "benchmark"
ROOT = Path(__file__).parent.parent


@contextlib.contextmanager
def pumice(token: str = TOKEN) -> Iterator[Endpoint]:
    """``pumice up`` on fresh data and without nodes, for the time of a ``with`` block. A token brings TLS."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as place, contextlib.ExitStack() as stack:
        home = Path(place)
        port, log = kubernetes.free_ports(1)[0], home / "log"
        command = [sys.executable, "-m", "pumice", "up", "--data", str(home / "data"), "--nodes", "0"]
        command += ["--port", str(port), "--kubeconfig", str(home / "kubeconfig"), "--no-scheduler", "--no-controllers"]
        command += ["--no-ui", *(["--token", token] if token else [])]
        process = stack.enter_context(kubernetes.started(log, command))
        url = f"{'https' if token else 'http'}://127.0.0.1:{port}"
        kubernetes.await_ready(url, token, process, log)
        yield Endpoint("pumice", url, token, (process.pid,))


Step = Callable[[Endpoint], dict[str, float]]


def compared(*steps: Step, token: str = TOKEN) -> dict[str, float]:
    """The figures of both servers, where both are there. They take turns, so that a noisy minute hits both."""
    figures: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(pumice(token))]
        if not kubernetes.unavailable():
            servers.append(stack.enter_context(kubernetes.running()))
        for step in steps:
            for server in servers:
                figures |= {f"{server.name}_{key}": value for key, value in step(server).items()}
    return figures


def writes() -> dict[str, float]:
    """Pods created and bound per second, by requests in flight."""
    return compared(*(partial(_writes, *pair) for pair in WORKLOAD["writes"]["in_flight"].items()))


def watching() -> dict[str, float]:
    """Events per second that reach all watchers together, and how long one takes from its request to a watcher."""
    return compared(_burst, _pace)


def listing() -> dict[str, float]:
    """Milliseconds to the last byte of a list, whole and in pages."""
    return compared(_fill, partial(_list, "whole", 0), partial(_list, "pages", WORKLOAD["list"]["page"]))


def memory() -> dict[str, float]:
    """Resident memory: idle after the start, and with many pods. The embedded server does without TLS here."""
    return compared(_memory_empty, _memory_full, token="")


def _writes(in_flight: int, count: int, server: Endpoint) -> dict[str, float]:
    figures, place = {}, f"writes-{in_flight}"
    _load(server, "namespace", place)
    for action in ("create", "bind"):
        seconds = _load(server, action, place, count=count, in_flight=in_flight)["seconds"]
        figures[f"{action}s_{in_flight}"] = count / seconds
    return figures


def _burst(server: Endpoint) -> dict[str, float]:
    watchers, spec = WORKLOAD["watch"]["watchers"], WORKLOAD["watch"]["burst"]
    count = spec["pods"]
    _load(server, "namespace", "burst")
    with _watchers(server, "burst", watchers, count) as seen:
        start = _load(server, "create", "burst", count=count, in_flight=spec["in_flight"])["start"]
        found = seen()
    last = max(times[-1] for times in found["times"])
    return {"events_per_second": watchers * count / (last - start), "watches_ended": found["resumed"]}


def _pace(server: Endpoint) -> dict[str, float]:
    watchers, spec = WORKLOAD["watch"]["watchers"], WORKLOAD["watch"]["pace"]
    _load(server, "namespace", "paced")
    with _watchers(server, "paced", watchers, spec["pods"]) as seen:
        sent = _load(server, "pace", "paced", count=spec["pods"], milliseconds=spec["milliseconds"])["sent"]
        waits = sorted((t - s) * 1000 for times in seen()["times"] for t, s in zip(times, sent, strict=True))
    return {"latency_ms": median(waits), "latency_p99_ms": waits[len(waits) * 99 // 100]}


def _fill(server: Endpoint) -> dict[str, float]:
    _load(server, "namespace", "lists")
    _load(server, "create", "lists", count=WORKLOAD["list"]["pods"], in_flight=16)
    return {}


def _list(name: str, page: int, server: Endpoint) -> dict[str, float]:
    spec = WORKLOAD["list"]
    found = _load(server, "list", "lists", expect=spec["pods"], times=spec["times"], page=page)
    return {f"{name}_ms": found["seconds"] * 1000, f"{name}_mib": found["bytes"] / 2**20}


def _memory_empty(server: Endpoint) -> dict[str, float]:
    time.sleep(5)
    return {"empty_mib": server.rss_mib}


def _memory_full(server: Endpoint) -> dict[str, float]:
    spec = WORKLOAD["memory"]
    _load(server, "namespace", "many")
    _load(server, "create", "many", count=spec["pods"], in_flight=spec["in_flight"])
    time.sleep(5)
    return {"full_mib": server.rss_mib}


def _command(server: Endpoint, action: str, namespace: str, options: dict[str, Any]) -> list[str]:
    named = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "benchmarks.apiserver_load", action, server.url, "--namespace", namespace, *named]


def _load(server: Endpoint, action: str, namespace: str, **options: Any) -> Any:
    """The output of the load client, which runs in its own process."""
    done = subprocess.run(
        _command(server, action, namespace, options),
        env={**os.environ, "API_TOKEN": server.token},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{action} on {server.name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout) if done.stdout else None


@contextlib.contextmanager
def _watchers(server: Endpoint, namespace: str, watchers: int, count: int) -> Iterator[Callable[[], Any]]:
    """Watchers in another process, ready when the block begins; call what it yields for what they saw."""
    process = subprocess.Popen(
        _command(server, "watch", namespace, {"watchers": watchers, "count": count}),
        env={**os.environ, "API_TOKEN": server.token},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the watchers of {server.name} did not start")
        output = process.stdout

        def seen() -> Any:
            text = output.read()
            if not text:
                raise RuntimeError(f"the watchers of {server.name} ended before they had seen everything; run it again")
            return json.loads(text)

        yield seen
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
