"""Pumice on a real Kubernetes API: installed once, and clean again for each who wants it for a while.

The server, its etcd and our webhooks live as long as the tests that share them. The nodes, the controllers and whatever
was made meanwhile go when one is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kubernetes
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from pumice.crds import first_queues
from pumice.install.rbac import CONTROLLERS, SCHEDULER
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.kube.resources import EVENTS, NODES, PODS, QUEUES, RESOURCE_QUOTAS, Document, Resource
from tests.support.installed import Component, Real, pumice, real_server, webhooks
from tests.support.simulated_nodes import BESIDE, WORK, simulated_nodes

START = {queue["metadata"]["name"]: queue for queue in first_queues()}


@dataclass(frozen=True)
class RealCluster:
    """One that is installed."""

    real: Real
    scheduler: Path
    """The kubeconfig of the scheduler, with the rights that it ships with."""

    @property
    def access(self) -> Access:
        return Access(self.real.endpoint.url, token=self.real.endpoint.token, verify=False)

    @contextlib.contextmanager
    def up(self, count: int, capacity: str, speed: float) -> Iterator[Path]:
        """With so many nodes and the controllers, for the time of a ``with`` block: the administrator's kubeconfig."""
        wanted = make_nodes(count, parse_capacity(capacity))
        try:
            with simulated_nodes(self.access, wanted, speed=speed), Component(self.real, CONTROLLERS).running():
                yield self.real.admin
        finally:
            asyncio.run(self.clean())

    async def clean(self) -> None:
        """Take away what was made since it was installed, and let the queues be as they were."""
        async with Session(self.access) as session:
            api = Api(session)
            for resource in (*WORK, *BESIDE, RESOURCE_QUOTAS.raw, EVENTS, NODES.raw):
                found = (await api.list(resource)).items
                # What the installation and the server have made stays: it is owned by nobody.
                made = [each for each in found if resource not in BESIDE or "ownerReferences" in each["metadata"]]
                await asyncio.gather(*(_delete(api, resource, each) for each in made))
            for queue in (await api.list(QUEUES.raw)).items:
                await _reset(api, queue)


async def _delete(api: Api, resource: Resource[Document], found: Document) -> None:
    about, grace = found["metadata"], 0 if resource == PODS.raw else None
    with contextlib.suppress(ApiError):  # gone by itself
        await api.delete(resource, about["name"], about.get("namespace", ""), grace=grace)


async def _reset(api: Api, queue: Document) -> None:
    """Let a queue be as it was at the start, or gone."""
    name = queue["metadata"]["name"]
    if name not in START:
        await api.patch(QUEUES.raw, name, {"metadata": {"finalizers": None}})
        with contextlib.suppress(ApiError):  # gone with its finalizer
            await api.delete(QUEUES, name)
        return
    kept = {key: queue["metadata"][key] for key in ("name", "uid", "resourceVersion")}
    reset = await api.update(QUEUES.raw, {**START[name], "metadata": kept})
    await api.update(QUEUES.raw, {**reset, "status": {}}, subresource="status")


@contextlib.contextmanager
def real_cluster(folder: Path) -> Iterator[RealCluster]:
    """A fresh API server on which Pumice is installed, and its webhooks."""
    with real_server(folder) as real:
        (port,) = kubernetes.free_ports(1)
        status, _, said = pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")
        assert status == 0, said
        with webhooks(real, port).running():
            yield RealCluster(real, real.account(SCHEDULER))
