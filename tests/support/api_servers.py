"""API servers for tests: ``pumice up`` as a process of its own, and one without our rules in a thread of this one."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from unittest import mock

import yaml

from benchmarks import kubernetes
from benchmarks.kubernetes import Endpoint
from kubesim.controllers import lazy_start
from kubesim.controllers.apps import deployments, replicasets
from kubesim.controllers.nodes import node_lifecycle
from kubesim.server import ServerSettings, running_cluster
from pumice.embedded.embedded_cluster import with_pumice


@contextlib.contextmanager
def pumice_up(
    *arguments: str, data: Path | None = None, token: str = "", everything: bool = False
) -> Iterator[tuple[Endpoint, Path]]:
    """``pumice up`` for the time of a ``with`` block: where it is, and its kubeconfig.

    ``everything``: with its scheduler and its controllers; else only the API and its nodes.
    """
    with tempfile.TemporaryDirectory(prefix="pumice-up-") as place:
        kubeconfig, log = Path(place) / "kubeconfig", Path(place) / "log"
        kept = ["--memory"] if data is None else ["--data", str(data)]
        command = [sys.executable, "-m", "pumice", "up", *kept, "--port", "0", "--kubeconfig", str(kubeconfig)]
        command += [*(["--token", token] if token else []), *arguments]
        command += [] if everything else ["--no-scheduler", "--no-controllers"]
        with kubernetes.started(log, command) as process:
            url = _url(kubeconfig, process, log)
            kubernetes.await_ready(url, token, process, log)
            yield Endpoint("pumice", url, token, (process.pid,)), kubeconfig


@contextlib.contextmanager
def plain_server(token: str) -> Iterator[Endpoint]:
    """A server without nodes, which knows our kinds but not our rules: what a real one is without webhooks.

    It runs no controllers of workloads and nodes, which a real one leaves to kube-controller-manager: they would create
    ReplicaSets and pods, and remove the pods of nodes that do not exist.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pumice-plain-") as place,
        mock.patch.object(deployments, "run", _nothing),
        mock.patch.object(replicasets, "run", _nothing),
        mock.patch.object(node_lifecycle, "run", _nothing),
        mock.patch.object(lazy_start, "run_when_used", _nothing),
    ):
        settings = ServerSettings(None, Path(place) / "kubeconfig", nodes=[], token=token)
        address: Future[str] = Future()

        async def serve() -> None:
            try:
                async with running_cluster(with_pumice(settings, admission=False)) as running:
                    address.set_result(running.server)
                    await stop.wait()
            except BaseException as error:
                if not address.done():
                    address.set_exception(error)
                raise

        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
        thread.start()
        try:
            yield Endpoint("pumice", address.result(30), token, ())
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()


async def _nothing(*_: object) -> None:
    await asyncio.Event().wait()


def _url(kubeconfig: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, as soon as it has written that down."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if kubeconfig.exists() and (written := yaml.safe_load(kubeconfig.read_text())):
            return str(written["clusters"][0]["cluster"]["server"])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"pumice up did not come up:\n{log.read_text()[-2000:]}")
