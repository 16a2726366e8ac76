"""A cluster of this machine alone (``pumice up --here``), as processes that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import JOBS, NODES, PODS
from tests.support.agents import end_processes_in
from tests.support.killable import Program
from tests.support.processes import run_process

OFFERS = "cpu=4,memory=8Gi,nvidia.com/gpu=2"
PATIENCE = 300.0


def command_pids(data: Path, command: str) -> list[int]:
    """The processes that run a command of the cluster with this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        ours = any(word.startswith(os.fsencode(data)) for word in words)
        if ours and b"pumice" in words and command.encode() in words:
            found.append(int(entry.name))
    return found


class Machine:
    """A cluster of this machine alone, whose processes can be killed."""

    def __init__(self, folder: Path, offers: str = OFFERS, *more: str, port: int = 0) -> None:
        self.folder = folder
        self.data = folder / "data"
        options = ["--here", "--here-capacity", offers, "--no-ui", "--port", str(port), "--data", str(self.data)]
        self._up = Program(folder, "up", *options, *more)
        self.client: Any = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until its node is there."""
        (self.data / "kubeconfig").unlink(missing_ok=True)
        self._up.start()
        self.until((self.data / "kubeconfig").exists)
        if self.client is not None:
            self.client.close()
        self.client = Client(read_kubeconfig(self.data / "kubeconfig"))
        self.until(self.nodes_ready)

    def nodes_ready(self) -> bool:
        nodes = self.client.list(NODES.path()).items
        conditions = [entry for node in nodes for entry in node["status"].get("conditions") or ()]
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    def kill(self, *commands: str) -> None:
        """Kill processes of the cluster: ``up``, ``agent``, ``scheduler`` or ``controllers``."""
        for command in commands:
            for pid in self.pids(command):
                os.kill(pid, signal.SIGKILL)
        if "up" in commands:
            self._up.end()
            self.start()

    def pids(self, command: str) -> list[int]:
        """The processes that run a command of this cluster."""
        return command_pids(self.data, command)

    def run(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of our commands against the cluster, where the user stands."""
        name, *rest = words
        program = Path(sys.executable).with_name(name)
        return run_process(
            [str(program), *rest],
            env=self.environment,
            cwd=folder or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a user of the cluster."""
        return {**os.environ, "KUBECONFIG": str(self.data / "kubeconfig")}

    def submit(
        self,
        name: str,
        script: str,
        replicas: int,
        *,
        least: int = 1,
        queue: str = "default",
        limits: dict[str, str] | None = None,
    ) -> None:
        """A job of shell scripts with a cpu each."""
        container = {
            "name": "main",
            "image": "host",
            "command": ["sh", "-c", script],
            "resources": {"limits": limits} if limits else {"requests": {"cpu": "1", "memory": "16Mi"}},
        }
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {
            "minAvailable": least,
            "queue": queue,
            "tasks": [{"name": "main", "replicas": replicas, "template": template}],
        }
        job = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.client.create(JOBS.path("default"), job)

    def pods(self) -> list[dict[str, Any]]:
        return list(self.client.list(PODS.path("default")).items)

    def phase(self, name: str) -> str:
        job = self.client.get(JOBS.path("default", name))
        return str((job.get("status") or {}).get("state", {}).get("phase", ""))

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            with suppress(ApiError, UnreachableError):  # while it is started again
                if holds():
                    return
            assert time.monotonic() < until, self._up.said()
            time.sleep(0.1)

    def clear(self) -> None:
        """End all jobs."""
        for job in self.client.list(JOBS.path("default")).items:
            self.client.delete(JOBS.path("default", job["metadata"]["name"]))
        self.until(lambda: not self.pods())

    def end(self) -> None:
        self.client.close()
        self._up.end(signal.SIGTERM)
        end_processes_in(self.data / "agent")
