"""Clusters to try kubectl on: the embedded server's, and a real Kubernetes API with its controllers.

On the real one Pumice is installed. Both have the same simulated nodes and the same rules of admission. The embedded
server is a fresh one each time; of the real one there is one for all, clean again when somebody is done with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from kubesim.kubelet.node_template import DEFAULT_CAPACITY, make_nodes, parse_capacity
from pumice.install.rbac import CONTROLLERS, SCHEDULER
from tests.support.api_servers import pumice_up
from tests.support.controller_manager import NAME, binary, controller_manager
from tests.support.installed import HOME, Component
from tests.support.kubectl import run
from tests.support.real_cluster import RealCluster, real_cluster
from tests.support.simulated_nodes import simulated_nodes

SPEED = 10.0
STAY = {"default", "kube-node-lease", "kube-public", "kube-system", HOME}


class Clusters(Protocol):
    """Where a cluster comes from."""

    has_kubelets: bool
    """Whether somebody answers for the nodes, as for logs."""

    def up(self, count: int = 3, *, everything: bool = False) -> AbstractContextManager[Path]:
        """A cluster of so many nodes for the time of a ``with`` block: its kubeconfig.

        ``everything``: with our scheduler and our controllers.
        """


class Embedded:
    """``pumice up``."""

    has_kubelets = True

    @contextlib.contextmanager
    def up(self, count: int = 3, *, everything: bool = False) -> Iterator[Path]:
        """A fresh one."""
        options = ("--nodes", str(count), "--speed", f"{SPEED:g}")
        with pumice_up(*options, everything=everything) as (_, kubeconfig):
            yield kubeconfig


@dataclass(frozen=True)
class Real:
    """The real API server."""

    cluster: RealCluster
    has_kubelets = False

    @contextlib.contextmanager
    def up(self, count: int = 3, *, everything: bool = False) -> Iterator[Path]:
        """The one there is, with nodes of its own."""
        wanted = make_nodes(count, parse_capacity(DEFAULT_CAPACITY))
        admin = self.cluster.real.admin
        try:
            with ExitStack() as stack:
                stack.enter_context(simulated_nodes(self.cluster.access, wanted, speed=SPEED))
                for name in (CONTROLLERS, SCHEDULER) if everything else ():
                    stack.enter_context(Component(self.cluster.real, name).running())
                try:
                    yield admin
                finally:
                    _empty(admin)
        finally:
            asyncio.run(self.cluster.clean())


def embedded_only(clusters: Clusters, reason: str) -> None:
    """Leave a test out where it says nothing about a real API server."""
    if not isinstance(clusters, Embedded):
        pytest.skip(reason)


@contextlib.contextmanager
def real_clusters(folder: Path) -> Iterator[Real]:
    """A fresh API server on which Pumice is installed, with kube-controller-manager beside it."""
    if binary() is None:
        assert os.environ.get("CI") != "true", f"{NAME} is neither in K8S_BIN nor on PATH; CI has to have it"
        pytest.skip(f"{NAME} is neither in K8S_BIN nor on PATH")
    with real_cluster(folder) as cluster, controller_manager(cluster.real.admin, folder / "controllers.log"):
        yield Real(cluster)


def _empty(kubeconfig: Path) -> None:
    """Begin to delete the namespaces that were made: nothing can be made there any more."""
    status, said = run(kubeconfig, "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}")
    assert status == 0, said
    if made := sorted(set(said.split()) - STAY):
        run(kubeconfig, "delete", "namespaces", "--wait=false", *made)
