"""The controller of Endpoints and EndpointSlices: it keeps them in line with the pods behind each Service."""

from __future__ import annotations

import asyncio
from typing import Final

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock
from kubesim.controllers.controller_refs import controller_of, is_being_deleted, new_controller_ref
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.controllers.service_endpoints import (
    endpoint_subsets,
    endpoints_labels,
    group_by_ports,
    has_endpoints,
    selects,
    slice_contents,
    slice_labels,
)
from kubesim.registry.registry import Object
from kubesim.storage import Change

SERVICES: Final = "services"
ENDPOINTS: Final = "endpoints"
SLICES: Final = "endpointslices.discovery.k8s.io"
SETTLE_SECONDS: Final = 0.05
"""How long to wait for further changes of pods: many pods become ready at once."""


class EndpointsController:
    """Reconciles the endpoints of Services."""

    def __init__(self, api: InProcessClient) -> None:
        self._api = api
        self._services: dict[str, dict[str, Object]] = {}  # by namespace and name
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)

    def on_service_change(self, change: Change) -> None:
        """Handle a change of a Service."""
        _, namespace, name = change.key.split("/")
        known = self._services.setdefault(namespace, {})
        if change.deleted:
            known.pop(name, None)
        else:
            known[name] = change.object
        self.work_queue.add(f"{namespace}/{name}")

    def on_pod_change(self, change: Change) -> None:
        """Handle a change of a pod: the Services that select it, or did so before, are reconciled."""
        namespace = change.key.split("/")[1]
        states = [state for state in (change.object, change.old) if state]
        for name, service in self._services.get(namespace, {}).items():
            if any(selects(service, state) for state in states):
                self.work_queue.add_later(f"{namespace}/{name}", SETTLE_SECONDS)

    async def _reconcile(self, key: str) -> None:
        namespace, name = key.split("/")
        service = self._api.read(SERVICES, namespace, name)
        if service is None:
            await self._api.delete(ENDPOINTS, namespace, name)  # EndpointSlices go with their owner
        elif has_endpoints(service) and not is_being_deleted(service):
            pods = [pod for pod in self._api.list("pods", namespace) if selects(service, pod)]
            groups = group_by_ports(service, pods)
            await self._write_endpoints(service, endpoint_subsets(service, groups))
            await self._write_slices(service, slice_contents(service, groups))

    async def _write_endpoints(self, service: Object, subsets: list[Object]) -> None:
        about, labels = service["metadata"], endpoints_labels(service)
        found = self._api.read(ENDPOINTS, about["namespace"], about["name"])
        if found is None:
            wanted = {"metadata": {"name": about["name"], "labels": labels}, "subsets": subsets}
            await self._api.create(ENDPOINTS, about["namespace"], wanted)
            return

        def edit(newest: Object) -> None:
            newest["metadata"]["labels"] = labels
            newest["subsets"] = subsets

        if found["metadata"].get("labels") != labels or found.get("subsets", []) != subsets:
            await self._api.modify(ENDPOINTS, about["namespace"], about["name"], edit)

    async def _write_slices(self, service: Object, contents: list[Object]) -> None:
        """Write the contents to the slices that exist, create those that are missing, and delete the others."""
        namespace, uid = service["metadata"]["namespace"], service["metadata"]["uid"]
        slices = [
            found for found in self._api.list(SLICES, namespace) if (controller_of(found) or {}).get("uid") == uid
        ]
        for content, found in zip(contents, slices, strict=False):
            await self._update_slice(service, found, content)
        for content in contents[len(slices) :]:
            about = {
                "generateName": f"{service['metadata']['name']}-",
                "labels": slice_labels(service),
                "ownerReferences": [new_controller_ref(service)],
            }
            await self._api.create(SLICES, namespace, {"metadata": about, "addressType": "IPv4", **content})
        for found in slices[len(contents) :]:
            await self._api.delete(SLICES, namespace, found["metadata"]["name"], uid=found["metadata"]["uid"])

    async def _update_slice(self, service: Object, found: Object, content: Object) -> None:
        labels = slice_labels(service)

        def edit(newest: Object) -> None:
            newest["metadata"]["labels"] = labels
            newest.update(content)

        same = all(found.get(part, []) == value for part, value in content.items())
        if not same or found["metadata"].get("labels") != labels:
            await self._api.modify(SLICES, service["metadata"]["namespace"], found["metadata"]["name"], edit)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the controller until cancelled."""
    endpoints = EndpointsController(api)

    async def follow_pods() -> None:
        async for batch in api.follow("pods"):
            for change in batch:
                endpoints.on_pod_change(change)

    async with asyncio.TaskGroup() as tasks:
        async for batch in api.follow(SERVICES):
            for change in batch:
                endpoints.on_service_change(change)
            if not batch:  # pods wake the Services that are known
                tasks.create_task(follow_pods())
                tasks.create_task(endpoints.work_queue.run())
