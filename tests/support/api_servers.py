"""API servers for tests, each a process of its own: ``pumice up``, and a real kube-apiserver where there is one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks import kubernetes
from benchmarks.kubernetes import Endpoint


@contextlib.contextmanager
def pumice_up(*arguments: str, data: Path | None = None, token: str = "") -> Iterator[tuple[Endpoint, Path]]:
    """``pumice up`` for the time of a ``with`` block: where it is, and its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="pumice-up-") as place:
        kubeconfig, log = Path(place) / "kubeconfig", Path(place) / "log"
        kept = ["--memory"] if data is None else ["--data", str(data)]
        command = [sys.executable, "-m", "pumice", "up", *kept, "--port", "0", "--kubeconfig", str(kubeconfig)]
        command += [*(["--token", token] if token else []), *arguments]
        with kubernetes.started(log, command) as process:
            url = _url(kubeconfig, process, log)
            kubernetes.await_ready(url, token, process, log)
            yield Endpoint("pumice", url, token, (process.pid,)), kubeconfig


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
