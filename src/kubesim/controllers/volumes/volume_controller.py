"""The persistent volume controller: binds claims and volumes, provisions, and reclaims what claims have left.

A binding is complete when the volume's claimRef names the claim with its uid, and the claim names the volume. Each step
is one write, and each is repeated until it holds, so the controller can stop anywhere and continue.

A claim whose class waits for its first consumer gets a volume only after a scheduler chose a node: by the annotation
``volume.kubernetes.io/selected-node`` of the claim, or by the claimRef of a volume that exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.controllers.volumes.provisioner import (
    ProvisionError,
    claim_reference,
    is_simulated,
    provisioned_volume,
)
from kubesim.controllers.volumes.volume_matching import best_volume, is_reserved_for
from kubesim.kinds.persistent_volumes import default_class, storage_class_name
from kubesim.kinds.storage_classes import STORAGE_CLASSES
from kubesim.registry.registry import Object
from kubesim.storage import Change

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class VolumeController:
    """Reconciles claims (``persistentvolumeclaims/NAMESPACE/NAME``) and volumes (``persistentvolumes/NAME``)."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._events = EventRecorder(api, "persistentvolume-controller", clock)
        self._unbound: set[str] = set()  # keys of claims without a volume
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)

    # ---- watch events -------------------------------------------------------------------------------------

    def on_claim_change(self, change: Change) -> None:
        """Handle a change of a claim."""
        self._unbound.discard(change.key)
        bound = change.object["spec"].get("volumeName")
        if not change.deleted:
            self.work_queue.add(change.key)
            if not bound:
                self._unbound.add(change.key)
        if bound:
            self.work_queue.add(f"{VOLUMES}/{bound}")
        elif change.deleted:  # a volume may be reserved for it
            for volume in self._api.list(VOLUMES):
                if is_reserved_for(volume, change.object):
                    self.work_queue.add(f"{VOLUMES}/{volume['metadata']['name']}")

    def on_volume_change(self, change: Change) -> None:
        """Handle a change of a volume."""
        self.work_queue.add(change.key)
        reference = change.object["spec"].get("claimRef")
        if reference:
            self.work_queue.add(f"{CLAIMS}/{reference.get('namespace', '')}/{reference.get('name', '')}")
        elif not change.deleted:
            self.retry_unbound()

    def retry_unbound(self) -> None:
        """Reconcile all claims without a volume: a class or a volume has appeared."""
        for key in sorted(self._unbound):
            self.work_queue.add(key)

    async def _reconcile(self, key: str) -> None:
        kind, _, rest = key.partition("/")
        if kind == VOLUMES:
            await self._reconcile_volume(rest)
        else:
            await self._reconcile_claim(*rest.split("/"))

    # ---- claims -------------------------------------------------------------------------------------------

    async def _reconcile_claim(self, namespace: str, name: str) -> None:
        claim = self._api.read(CLAIMS, namespace, name)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return
        if claim["spec"].get("volumeName"):
            await self._complete_binding(claim)
            return
        storage_class = await self._class_of(claim)
        waits = storage_class is not None and storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
        volume = best_volume(self._api.list(VOLUMES), claim, reserved_only=waits)
        if volume is not None:
            if await self._reserve(volume, claim):
                await self._set_volume_name(claim, volume["metadata"]["name"])
            return
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        if waits and not node:
            message = "waiting for first consumer to be created before binding"
            await self._events.record_normal(claim, "WaitForFirstConsumer", message)
        elif storage_class is not None and is_simulated(storage_class, self._api.identity):
            await self._provision(claim, storage_class, node if waits else "")
        elif storage_class is not None:
            message = (
                f"Waiting for a volume to be created either by the external provisioner "
                f"'{storage_class['provisioner']}' or manually by the system administrator."
            )
            await self._events.record_normal(claim, "ExternalProvisioning", message)
            await self._note_provisioner(claim, storage_class["provisioner"])
        elif storage_class_name(claim):
            message = f'storageclass.storage.k8s.io "{storage_class_name(claim)}" not found'
            await self._events.record_warning(claim, "ProvisioningFailed", message)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            await self._events.record_normal(claim, "FailedBinding", message)

    async def _class_of(self, claim: Object) -> Object | None:
        """The class of a claim. A claim that was created before there was a default class gets that now."""
        if "storageClassName" not in claim["spec"] and not storage_class_name(claim):
            found = default_class(self._api.list(STORAGE_CLASSES))
            if found is None:
                return None
            claim["spec"]["storageClassName"] = name = found["metadata"]["name"]
            await self._modify_claim(claim, lambda newest: newest["spec"].setdefault("storageClassName", name))
        name = storage_class_name(claim)
        return self._api.read(STORAGE_CLASSES, "", name) if name else None

    async def _reserve(self, volume: Object, claim: Object) -> bool:
        """Write the claim into the volume. False: the volume was taken or has gone meanwhile."""

        def edit(newest: Object) -> None:
            reference = newest["spec"].get("claimRef")
            if not reference or is_reserved_for(newest, claim):
                newest["spec"]["claimRef"] = {**claim_reference(claim), **(reference or {})}
                newest["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"]
                if not reference:
                    newest["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"

        about = volume["metadata"]
        found = await self._api.modify(VOLUMES, "", about["name"], edit, uid=about["uid"])
        return found is not None and is_reserved_for(found, claim)

    async def _set_volume_name(self, claim: Object, volume: str) -> None:
        def edit(newest: Object) -> None:
            newest["spec"].setdefault("volumeName", volume)
            newest["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"

        await self._modify_claim(claim, edit)

    async def _complete_binding(self, claim: Object) -> None:
        """The claim names its volume: reserve that, if its user has named it, and report both as bound."""
        annotations = claim["metadata"].get("annotations") or {}
        volume = self._api.read(VOLUMES, "", claim["spec"]["volumeName"])
        if volume is None:
            if BIND_COMPLETED in annotations:
                await self._set_claim_status(claim, {"phase": "Lost"})
            return
        if not await self._reserve(volume, claim):
            message = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
            await self._events.record_warning(claim, "FailedBinding", message)
            return
        if BIND_COMPLETED not in annotations:

            def edit(newest: Object) -> None:
                newest["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"

            await self._modify_claim(claim, edit)
        has = volume["spec"]
        status = {"phase": "Bound", "accessModes": has["accessModes"], "capacity": has["capacity"]}
        await self._set_claim_status(claim, status)
        await self._set_phase(volume, "Bound")

    async def _provision(self, claim: Object, storage_class: Object, node_name: str) -> None:
        node = self._api.read("nodes", "", node_name) if node_name else None
        provisioner = storage_class["provisioner"]
        try:
            if node_name and node is None:
                raise ProvisionError(f'node "{node_name}" not found')
            wanted = provisioned_volume(claim, storage_class, node)
        except ProvisionError as error:
            name = storage_class["metadata"]["name"]
            message = f'failed to provision volume with StorageClass "{name}": {error}'
            await self._events.record_warning(claim, "ProvisioningFailed", message)
            if node_name:  # the scheduler has to choose another node
                await self._modify_claim(claim, partial(_drop_selected_node, node_name))
            return
        await self._note_provisioner(claim, provisioner)
        try:
            await self._api.create(VOLUMES, "", wanted)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        message = f"Successfully provisioned volume {wanted['metadata']['name']}"
        await self._events.record_normal(claim, "ProvisioningSucceeded", message)

    async def _note_provisioner(self, claim: Object, provisioner: str) -> None:
        def edit(newest: Object) -> None:
            newest["metadata"].setdefault("annotations", {})[STORAGE_PROVISIONER] = provisioner

        if (claim["metadata"].get("annotations") or {}).get(STORAGE_PROVISIONER) != provisioner:
            await self._modify_claim(claim, edit)

    async def _modify_claim(self, claim: Object, edit: Callable[[Object], object], *, subresource: str = "") -> None:
        about = claim["metadata"]

        def change(newest: Object) -> None:
            edit(newest)

        await self._api.modify(
            CLAIMS, about["namespace"], about["name"], change, subresource=subresource, uid=about["uid"]
        )

    async def _set_claim_status(self, claim: Object, status: Object) -> None:
        def edit(newest: Object) -> None:
            newest.setdefault("status", {}).update(status)

        if any((claim.get("status") or {}).get(field) != value for field, value in status.items()):
            await self._modify_claim(claim, edit, subresource="status")

    # ---- volumes ------------------------------------------------------------------------------------------

    async def _reconcile_volume(self, name: str) -> None:
        volume = self._api.read(VOLUMES, "", name)
        if volume is None or "deletionTimestamp" in volume["metadata"]:
            return
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._set_phase(volume, "Available")
            return
        claim = self._api.read(CLAIMS, reference["namespace"], reference["name"])
        if claim is not None and claim["metadata"]["uid"] == reference["uid"]:
            bound = claim["spec"].get("volumeName") == name
            await self._set_phase(volume, "Bound" if bound else "Available")
            return
        await self._set_phase(volume, "Released")
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            await self._api.delete(VOLUMES, "", name, uid=volume["metadata"]["uid"])

    async def _set_phase(self, volume: Object, phase: str) -> None:
        if (volume.get("status") or {}).get("phase") == phase:
            return

        def edit(newest: Object) -> None:
            newest.setdefault("status", {})["phase"] = phase

        about = volume["metadata"]
        await self._api.modify(VOLUMES, "", about["name"], edit, subresource="status", uid=about["uid"])


def _drop_selected_node(node: str, claim: Object) -> None:
    annotations = claim["metadata"].get("annotations") or {}
    if annotations.get(SELECTED_NODE) == node:
        del annotations[SELECTED_NODE]


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the persistent volume controller until cancelled."""
    controller = VolumeController(api, clock)

    async def follow(resource: str, handle: Callable[[Change], None]) -> None:
        async for batch in api.follow(resource):
            for change in batch:
                handle(change)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.work_queue.run())
        tasks.create_task(follow(CLAIMS, controller.on_claim_change))
        tasks.create_task(follow(VOLUMES, controller.on_volume_change))
        tasks.create_task(follow(STORAGE_CLASSES, lambda _: controller.retry_unbound()))
