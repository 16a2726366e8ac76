"""The cluster under test: ``pumice up`` with its processes, their memory, and their violent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks import kubernetes
from pumice.kube.client.kubeconfig import Access

CHILDREN = ("scheduler", "controllers")
PARENT = "up"


class SoakCluster:
    """``pumice up`` on one data directory and one port, as one process after another."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.data, self.log = folder / "data", folder / "log"
        (self._port,) = kubernetes.free_ports(1)
        self._nodes = nodes
        self._process: subprocess.Popen[bytes] | None = None
        self._output = self.log.open("wb")

    @property
    def access(self) -> Access:
        """How clients reach it."""
        return Access(f"http://127.0.0.1:{self._port}")

    @property
    def port(self) -> int:
        """Its port on loopback."""
        return self._port

    def start(self) -> None:
        """Start it, and wait until it answers."""
        capacity = "cpu=16,memory=64Gi"
        command = [sys.executable, "-m", "pumice", "up", "--data", str(self.data), "--port", str(self._port)]
        command += ["--no-ui", "--nodes", str(self._nodes), "--node-capacity", capacity]
        self._process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT)
        kubernetes.await_ready(self.access.server, "", self._process, self.log)

    def stop(self) -> int:
        """Stop it; returns its exit status."""
        assert self._process
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def kill(self) -> None:
        """End the server at once; its children end with it."""
        assert self._process
        self._process.kill()
        self._process.wait()

    def kill_child(self, name: str) -> None:
        """End a child at once; the server starts it again."""
        process = self.processes().get(name)
        if process:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def processes(self) -> dict[str, int]:
        """The process ids, by name."""
        assert self._process
        found = {PARENT: self._process.pid}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
                for name in CHILDREN:
                    if parent == self._process.pid and name.encode() in words:
                        found[name] = int(folder.name)
        return found

    def memory(self) -> dict[str, float]:
        """The resident memory of each process in MB."""
        found = {}
        for name, process in self.processes().items():
            with suppress(OSError):
                lines = Path(f"/proc/{process}/status").read_text().splitlines()
                found[name] = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
        return found

    def tracebacks(self) -> int:
        """How many tracebacks the log has."""
        return self.log.read_bytes().count(b"Traceback (most recent call last)")
