"""Reconciles the pods of this node with their folders: starts, reports, ends and removes them.

A pod is what the API says it should be; its folder is what it is. Each step makes the folder follow the pod, or reports
the folder to the API, and can be repeated after a crash at any place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from kubebase.pod_request import pod_request
from kubebase.resource_vector import Registry, Vector, add, widen
from kubebase.timestamps import stamp
from kubebase.work_queue import RetryPolicy, WorkQueue
from pumice.agent.cgroups import Cgroups
from pumice.agent.environment import MissingError, Referenced
from pumice.agent.host_lookup import HostLookup
from pumice.agent.job_hosts import JobHosts, host_name
from pumice.agent.machine import GPU, Machine
from pumice.agent.node_pods import ENDED, EndedPod, Seen
from pumice.agent.owners import OwnerError, find_identity
from pumice.agent.pod_folders import PodFolder, PodFolders
from pumice.agent.pod_plan import PlanContext, make_cgroups, make_plan, pod_gpu_count
from pumice.agent.pod_refusals import Abilities, refusals
from pumice.agent.pod_status import differs, failed_status, pod_status
from pumice.agent.shim.records import Identity
from pumice.agent.shim_start import ShimStarter
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import CONFIG_MAPS, PODS, SECRETS, Document, Resource
from pumice.kube.watch.change_queue import Change

COMPONENT = "pumice-agent"
MISSING_SECONDS = 2.0
"""How often the agent looks again for a ConfigMap or Secret that a pod waits for."""
CHECK_SECONDS = 30.0
"""How often the agent looks whether the shim of a pod still lives, if nothing told it before."""
ORPHAN_GRACE = 30.0
LEAVING_SECONDS = 0.2
"""How often the agent looks again whether pods that are ending have made room for one that was placed already."""
REFERENCES = {"configmap": ("configMapRef", "configMapKeyRef"), "secret": ("secretRef", "secretKeyRef")}
"""The fields of a container by which it refers to ConfigMaps and Secrets."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What all pods of the node share."""

    machine: Machine
    cgroups: Cgroups | None
    abilities: Abilities
    address: str
    notify: str
    shared: bool = False
    """Whether pods run as the owners of their namespaces; otherwise as the user of the agent."""


class PodWorker:
    """Keeps pods and folders in step; keys are uids of pods."""

    def __init__(self, api: Api, folders: PodFolders, node: NodeContext, shims: ShimStarter) -> None:
        self._api = api
        self._shims = shims
        self._folders = folders
        self._node = node
        self._hosts = HostLookup(api, node.address)
        self._pods: dict[str, Document] = {}
        self._ended: dict[str, EndedPod] = {}
        self._registry = Registry()
        self._admitted: dict[str, Vector] = {}  # requests of pods that have not ended
        self._watched: dict[str, int] = {}  # by uid: a descriptor that is readable when the shim has ended
        retries = RetryPolicy(first_delay=0.2, longest_delay=10.0, expected_errors=(ApiError, UnreachableError))
        self.work_queue = WorkQueue(self._reconcile, workers=16, retries=retries)

    def on_change(self, change: Change[Seen]) -> None:
        """A pod of this node has changed."""
        self._note(change.uid, change.new)
        self.work_queue.add(change.uid)

    def _note(self, uid: str, pod: Seen | None) -> None:
        if isinstance(pod, EndedPod):
            self._ended[uid] = pod
        else:
            self._ended.pop(uid, None)
        if isinstance(pod, dict):
            self._pods[uid] = pod
        else:
            self._pods.pop(uid, None)

    def adopt_folders(self) -> None:
        """Reconcile every pod that was here before this process; called once all pods of the API are known."""
        if self._node.cgroups is not None:
            self._node.cgroups.sweep({folder.uid for folder in self._folders if not folder.finished})
        for folder in self._folders:
            pod = self._pods.get(folder.uid)
            if pod is not None and not folder.finished:
                self._admitted[folder.uid] = self._request(pod)
        for uid in self._folders.uids():
            self.work_queue.add(uid)

    async def _reconcile(self, uid: str) -> float | None:
        if uid in self._ended:
            return await self._reconcile_ended(uid, self._ended[uid])
        pod, folder = self._pods.get(uid), self._folders.get(uid)
        if pod is None:
            return await self._end_orphan(folder) if folder is not None else None
        if folder is None:
            return await self._begin(pod)
        if folder.plan is None:
            return await self._start(pod, folder)
        if folder.shim() is None and not folder.rebooted:  # the agent was killed between plan and start
            if self._node.cgroups is not None and folder.plan["cgroups"]:
                make_cgroups(pod, self._node.cgroups)  # another agent may have taken them for abandoned
            await self._shims.start(folder.path)
        self._watch_shim(folder)
        if not folder.finished and not folder.is_shim_alive() and not folder.finished:
            await asyncio.to_thread(folder.write_off)
        if folder.finished:  # before the API knows: it may send the next pod before it answers
            self._forget(uid)
            self._folders.let_go(folder)
        await self._report(pod, folder)
        if folder.finished:
            if "deletionTimestamp" in pod["metadata"]:
                await self._delete_pod(pod)
            return None
        if "deletionTimestamp" in pod["metadata"]:
            folder.request_stop(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
        return CHECK_SECONDS

    # ---- start --------------------------------------------------------------------------------------------

    async def _begin(self, pod: Document) -> float | None:
        """Admit a new pod, or say why not."""
        status = pod.get("status") or {}
        if "deletionTimestamp" in pod["metadata"]:
            await self._delete_pod(pod)
            return None
        if status.get("phase") in ENDED:
            return None
        if status.get("startTime"):
            await self._fail(pod, "StateLost", "The agent's record of this pod is gone, and so is the pod")
            return None
        abilities = self._node.abilities
        if self._node.shared:
            try:
                user = (await find_identity(self._api, pod["metadata"]["namespace"]))["uid"]
            except OwnerError as error:
                await self._fail(pod, error.reason, str(error))
                return None
            abilities = replace(abilities, user=user, shared=True)
        refused = refusals(pod, abilities)
        if refused:
            await self._fail(pod, "Unsupported", f"The node runs pods as processes: {'; '.join(refused)}")
            return None
        lack = self._shortage(pod)
        if lack and any(map(self._is_leaving, self._admitted)):
            return LEAVING_SECONDS
        if lack:
            await self._fail(pod, f"OutOf{lack}", f"Node didn't have enough resource: {lack}")
            return None
        self._admitted[pod["metadata"]["uid"]] = self._request(pod)
        return await self._start(pod, self._folders.create(pod["metadata"]["uid"]))

    async def _start(self, pod: Document, folder: PodFolder) -> float | None:
        """Write the plan and start the shim; wait if something is missing."""
        if "deletionTimestamp" in pod["metadata"]:
            self._forget(folder.uid)
            await asyncio.to_thread(self._folders.remove, folder)
            await self._delete_pod(pod)
            return None
        referenced = await self._referenced(pod)
        try:
            identity = await find_identity(self._api, pod["metadata"]["namespace"]) if self._node.shared else None
        except OwnerError as error:
            await self._wait_for(pod, str(error))
            return MISSING_SECONDS
        try:
            hosts = await self._hosts.find(pod, referenced, self._folders.taken_ports())
        except MissingError as error:
            await self._wait_for(pod, str(error))
            return LEAVING_SECONDS if host_name(pod) else MISSING_SECONDS
        try:
            self._write_plan(pod, folder, referenced, hosts, identity)
        except (MissingError, OSError) as error:
            await self._wait_for(pod, str(error))
            return MISSING_SECONDS
        await self._shims.start(folder.path)
        self.work_queue.add(folder.uid)
        return None

    def _write_plan(
        self, pod: Document, folder: PodFolder, referenced: Referenced, hosts: JobHosts, identity: Identity | None
    ) -> None:
        """Choose GPUs and write the plan in one step, so that no other pod can be given the same."""
        taken = self._folders.taken_devices(GPU)
        free = [gpu.uuid for gpu in self._node.machine.gpus if gpu.uuid not in taken]
        count = pod_gpu_count(pod)
        if count > len(free):
            raise MissingError(f"{count} GPUs requested, {len(free)} free; waiting for pods that are ending")
        node = self._node
        context = PlanContext(
            folder.path,
            referenced,
            free[:count],
            node.cgroups,
            node.address,
            node.notify,
            hosts,
            node.abilities.mounts,
            identity,
        )
        folder.write_plan(make_plan(pod, context))
        self._hosts.release(folder.uid)

    async def _wait_for(self, pod: Document, message: str) -> None:
        """Report that the containers wait for something."""
        waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
        status = {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": each["name"],
                    "image": each.get("image", ""),
                    "imageID": "",
                    "ready": False,
                    "started": False,
                    "restartCount": 0,
                    "state": waiting,
                    "lastState": {},
                }
                for each in pod["spec"]["containers"]
            ],
        }
        if differs(status, pod.get("status") or {}):
            await self._event(pod, "FailedMount", message)
            await self._patch(pod, status)

    async def _referenced(self, pod: Document) -> Referenced:
        """The ConfigMaps and Secrets that a pod names."""
        names = _referenced_names(pod)
        namespace = pod["metadata"]["namespace"]
        return Referenced(
            {name: await self._find(CONFIG_MAPS, name, namespace) for name in sorted(names["configmap"])},
            {name: await self._find(SECRETS, name, namespace) for name in sorted(names["secret"])},
            self._node.machine.allocatable,
        )

    async def _find(self, resource: Resource[Document], name: str, namespace: str) -> Document | None:
        try:
            return await self._api.get(resource, name, namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    def _request(self, pod: Document) -> Vector:
        spec = pod["spec"]
        return pod_request(
            self._registry,
            spec["containers"],
            spec.get("initContainers") or (),
            spec.get("overhead"),
            spec.get("resources"),
        )

    def _shortage(self, pod: Document) -> str:
        """The resource of which there is not enough for one more pod; empty: there is enough."""
        request = self._request(pod)
        used: Vector = ()
        for other in self._admitted.values():
            used = add(used, other)
        total = self._registry.vector(self._node.machine.allocatable, where="allocatable")
        width = len(self._registry)
        wide_used, wide_total = widen(used, width), widen(total, width)
        for place, wanted in enumerate(request):
            if wanted and wide_used[place] + wanted > wide_total[place]:
                return self._registry.names[place]
        return ""

    def _is_leaving(self, uid: str) -> bool:
        """Whether an admitted pod is about to give its room back."""
        pod = self._pods.get(uid)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    # ---- report and end -----------------------------------------------------------------------------------

    async def _report(self, pod: Document, folder: PodFolder) -> None:
        record = folder.record()
        if record is None:
            return
        status = pod_status(pod, record, self._node.address)
        now = pod.get("status") or {}
        if now.get("phase") in ENDED or not differs(status, now):
            return
        await self._patch(pod, status)

    async def _end_orphan(self, folder: PodFolder) -> float | None:
        """End a pod that the API no longer knows, and remove its folder."""
        if folder.plan is not None and not folder.finished:
            if folder.shim() is not None and not folder.is_shim_alive():
                await asyncio.to_thread(folder.write_off)
            elif folder.shim() is not None:
                self._watch_shim(folder)
                folder.request_stop(min(ORPHAN_GRACE, folder.plan["grace"]))
                return CHECK_SECONDS
        if folder.is_shim_alive():  # it has written its last record and is about to end
            return 0.05
        self._forget(folder.uid)
        await asyncio.to_thread(self._folders.remove, folder)
        return None

    async def _reconcile_ended(self, uid: str, pod: EndedPod) -> float | None:
        """See to it that nothing runs of a pod that has ended in the API, whoever wrote that."""
        folder = self._folders.held(uid)
        if folder is not None:
            if not folder.has_ended:
                return await self._end_orphan(folder)
            self._forget(uid)
            self._folders.let_go(folder)
        if pod.deleting:
            await self._delete(pod.namespace, pod.name, uid)
        return None

    async def _delete_pod(self, pod: Document) -> None:
        about = pod["metadata"]
        await self._delete(about["namespace"], about["name"], about["uid"])

    async def _delete(self, namespace: str, name: str, uid: str) -> None:
        with suppress(ApiError):  # gone already, or another pod of the same name
            await self._api.delete(PODS, name, namespace, uid=uid, grace=0)

    async def _fail(self, pod: Document, reason: str, message: str) -> None:
        await self._event(pod, reason, message)
        await self._patch(pod, failed_status(pod, reason, message, stamp(time.time())))

    async def _patch(self, pod: Document, status: Document) -> None:
        about = pod["metadata"]
        try:
            new = await self._api.patch_status(PODS.raw, about["name"], status, about["namespace"], uid=about["uid"])
        except ApiError as error:
            if not error.not_found:
                raise
        else:
            if about["uid"] in self._pods:  # the informer may be behind
                self._pods[about["uid"]] = new

    async def _event(self, pod: Document, reason: str, message: str) -> None:
        await record_once(self._api, COMPONENT, pod, reason, message, stamp(time.time()), "Warning")

    def _forget(self, uid: str) -> None:
        self._admitted.pop(uid, None)
        self._hosts.release(uid)
        descriptor = self._watched.pop(uid, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def _watch_shim(self, folder: PodFolder) -> None:
        """Reconcile the pod as soon as its shim ends, however it ends."""
        shim = folder.shim()
        if folder.uid in self._watched or folder.finished or shim is None:
            return
        try:
            descriptor = os.pidfd_open(shim["pid"])
        except OSError:  # it has ended, or the kernel has no such descriptors: the record will tell, or the next look
            return
        if not folder.is_shim_alive():
            os.close(descriptor)
            return
        self._watched[folder.uid] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._on_shim_end, folder.uid)

    def _on_shim_end(self, uid: str) -> None:
        descriptor = self._watched.pop(uid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self.work_queue.add(uid)


def _referenced_names(pod: Document) -> dict[str, set[str]]:
    """The names of ConfigMaps and Secrets that a pod's containers and volumes use."""
    found: dict[str, set[str]] = {"configmap": set(), "secret": set()}
    spec = pod["spec"]
    for volume in spec.get("volumes") or ():
        if "configMap" in volume:
            found["configmap"].add(volume["configMap"]["name"])
        if "secret" in volume:
            found["secret"].add(volume["secret"]["secretName"])
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        sources = [*(container.get("envFrom") or ())]
        sources += [entry["valueFrom"] for entry in container.get("env") or () if "valueFrom" in entry]
        for source in sources:
            for kind, keys in (
                ("configmap", ("configMapRef", "configMapKeyRef")),
                ("secret", ("secretRef", "secretKeyRef")),
            ):
                found[kind].update(source[key]["name"] for key in keys if key in source)
    return found
