"""The servers that Volcano's suites run against: ``pumice up``, Pumice on a real Kubernetes API, and on real nodes.

``kubernetes`` is kube-apiserver with kube-controller-manager, on which Pumice is installed: its webhooks, controllers
and scheduler are processes with the rights that it ships. Its kubelets are simulated, as those of ``pumice up`` are.
``nodes`` has real kubelets, and Pumice runs in pods (``node_server``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from pumice.install.rbac import CONTROLLERS, SCHEDULER
from tests.support.controller_manager import CONTROLLERS as BUILT_IN_CONTROLLERS
from tests.support.controller_manager import controller_manager
from tests.support.installed import Component
from tests.support.processes import started_process
from tests.support.real_cluster import real_cluster
from tests.support.simulated_nodes import simulated_nodes
from tests.volcano.node_server import node_server

SPEED = 2.5
"""Seconds of a container's life per second. Pods stop before their grace period is over, and a pod on a node that does
not exist is there for longer than the ten seconds after which a case looks for it."""

POLL_SECONDS = 0.2
MORE_CONTROLLERS = ("replicationcontroller-controller", "pod-garbage-collector-controller")
"""Controllers that the cases need beside those of other tests: one binds a pod to a node that does not exist."""

Server = Callable[[Path, Sequence[dict[str, Any]], Path], AbstractContextManager[Path]]
"""Starts a cluster with these nodes and this configuration of the scheduler, which it follows when the file changes;
yields the path of its kubeconfig, which is there once the server listens. The folder gets the logs."""


@contextmanager
def embedded_server(work: Path, nodes: Sequence[dict[str, Any]], config: Path) -> Iterator[Path]:
    """``pumice up``."""
    kubeconfig, nodes_file = work / "kubeconfig", work / "nodes.yaml"
    nodes_file.write_text(yaml.safe_dump_all(nodes))
    command = [sys.executable, "-P", "-m", "pumice", "up", "--memory", "--port", "0", "--speed", str(SPEED)]
    command += ["--nodes-file", str(nodes_file), "--kubeconfig", str(kubeconfig), "--config", str(config)]
    log = work / "cluster.log"
    with log.open("w") as output, started_process(command, stdout=output, stderr=output) as process:
        while not kubeconfig.exists():
            if process.poll() is not None:
                raise RuntimeError(f"pumice up ended with status {process.returncode}:\n{log.read_text()[-2000:]}")
            time.sleep(POLL_SECONDS)
        yield kubeconfig


@contextmanager
def kubernetes_server(work: Path, nodes: Sequence[dict[str, Any]], config: Path) -> Iterator[Path]:
    """A real kube-apiserver, found as ``K8S_BIN`` says."""
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster(work))
        log = work / "kube-controller-manager.log"
        stack.enter_context(controller_manager(cluster.real.admin, log, [*BUILT_IN_CONTROLLERS, *MORE_CONTROLLERS]))
        stack.enter_context(simulated_nodes(cluster.access, nodes, speed=SPEED))
        stack.enter_context(Component(cluster.real, CONTROLLERS).running())
        stack.enter_context(Component(cluster.real, SCHEDULER, "--config", str(config)).running())
        yield cluster.real.admin


SERVERS: dict[str, Server] = {"embedded": embedded_server, "kubernetes": kubernetes_server, "nodes": node_server}
