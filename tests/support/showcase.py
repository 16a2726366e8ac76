"""A small cluster with something to see on every page: three organisations, borrowing, an eviction, a job that waits.

Its manifests stand in tools/ui/showcase. The browser tests and ``python -m tools.screenshots`` use it.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kubernetes import free_ports
from tests.support.api_servers import pumice_up
from tests.support.kubectl import Namespace, run

MANIFESTS = Path(__file__).resolve().parents[2] / "tools/ui/showcase"
NODES = ("--nodes", "12", "--node-capacity", "cpu=16,memory=64Gi,nvidia.com/gpu=4")
SECONDS = 60.0
BORROWING = 50
"""More tasks than this run before ``showcase`` hands over the cluster."""
BINDS = "/api/decisions?kind=bind&limit=500"


@dataclass(frozen=True)
class Showcase:
    """Where the cluster and its page are."""

    kubectl: Namespace
    page: str
    process: int
    """Of ``pumice up``, which starts the page's process again when that ends."""

    def apply(self, name: str) -> None:
        """Apply one of the manifests."""
        status, said = run(self.kubectl.kubeconfig, "apply", "-f", str(MANIFESTS / name))
        assert status == 0, said

    def get(self, path: str) -> Any:
        """A document of the page's server."""
        with urllib.request.urlopen(self.page + path, timeout=10) as response:
            return json.load(response)

    def await_document(self, path: str, holds: Callable[[Any], object]) -> Any:
        """The document, as soon as it is as wanted."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                document = self.get(path)
                if holds(document):
                    return document
            except OSError:
                document = None
            assert time.monotonic() < deadline, f"{path}: not as wanted after {SECONDS:g} s: {str(document)[:2000]}"
            time.sleep(0.1)

    def objects(self) -> dict[str, list[Any]]:
        """All objects that the pages count."""
        kinds = ("queues", "podgroups", "pods", "nodes")
        return {kind: self.kubectl.object(kind, "--all-namespaces")["items"] for kind in kinds}

    def child_process(self, command: str) -> int:
        """The id of the process of ``pumice up`` that runs this command: scheduler, controllers or ui."""
        for task in Path(f"/proc/{self.process}/task").iterdir():
            for child in (task / "children").read_text().split():
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if command.encode() in words:
                    return int(child)
        raise AssertionError(f"pumice up ({self.process}) runs no {command}; pid {os.getpid()}")


@contextmanager
def showcase(data: Path) -> Iterator[Showcase]:
    """The cluster with its queues, and jobs that borrow; ``owners.yaml`` brings those that take back."""
    (port,) = free_ports(1)
    options = (*NODES, "--config", os.path.relpath(MANIFESTS / "config.yaml"), "--ui", "--ui-port", str(port))
    with pumice_up(*options, data=data, everything=True) as (endpoint, kubeconfig):
        cluster = Showcase(Namespace(kubeconfig, "default"), f"http://127.0.0.1:{port}", endpoint.processes[0])
        cluster.apply("queues.yaml")
        cluster.await_document("/api/tree", lambda tree: {"serving", "climate"} <= {q["name"] for q in tree["queues"]})
        cluster.apply("borrowers.yaml")
        cluster.await_document("/api/tree", lambda tree: tree["cluster"]["tasks"]["running"] > BORROWING)
        yield cluster


def taken_by_science(document: Any) -> list[Any]:
    """The evictions, newest first, by which science got back its part (teams of one organisation evict, too)."""
    evictions = [decision for decision in document["decisions"] if decision["kind"] == "evict"]
    return [decision for decision in evictions if (decision["preemptor"] or "").startswith("science/")]


def moment_before_science(cluster: Showcase) -> str:
    """A time at which the borrowers ran and no job of science was there: only with these tasks bound it was created."""
    binds = cluster.get(BINDS)["decisions"]
    return str(binds[-1 - BORROWING]["time"])
