"""The node lifecycle controller: readiness, taints, taint-based eviction, and removal of pods of missing nodes.

A node without heartbeats becomes ``Ready=Unknown`` after a grace period. A simulated node counts as alive unless it is
lost (annotation ``lost``); any other node must renew its lease. Taints follow from conditions and from ``kubectl
cordon``; pods that do not tolerate a NoExecute taint are deleted, at once or after their toleration. A pod on a lost
node stays Terminating, because no kubelet stops it; it is removed when its node no longer exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock, stamp
from kubesim.controllers.conditions import find_condition, is_condition_true, set_condition
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.gc.garbage_collector import split_key
from kubesim.controllers.nodes.taints import (
    OUT_OF_SERVICE,
    Taint,
    desired_taints,
    first_added,
    no_execute_taints,
    toleration_seconds,
)
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.identity import ServerIdentity
from kubesim.registry.registry import Object
from kubesim.storage import Change

LOST, SIMULATED = "lost", "simulated"  # annotations, in the domain of the product
LEASES, LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"
NODE_MONITOR_GRACE_SECONDS = 50.0  # seconds without heartbeat until a node is Unknown
POD_GC_QUARANTINE_SECONDS = 40.0  # seconds until pods on a node that does not exist are removed
UNKNOWN_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def is_lost(node: Object, identity: ServerIdentity) -> bool:
    """Whether the node is annotated as lost."""
    annotations = node["metadata"].get("annotations") or {}
    return annotations.get(identity.annotation(LOST), "false").lower() not in {"", "false"}


def is_simulated(node: Object, identity: ServerIdentity) -> bool:
    """Whether this process simulates the node's kubelet: unless its annotation says otherwise."""
    return bool((node["metadata"].get("annotations") or {}).get(identity.annotation(SIMULATED)) != "false")


class NodeLifecycleController:
    """Reconciles nodes and the pods on them."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "node-controller", clock)
        self._pods_by_node: dict[str, set[str]] = {}  # keys of the pods of each node
        self._last_heartbeat: dict[str, float] = {}  # by existing node
        self._missing_since: dict[str, float] = {}  # nodes that have pods but do not exist: since when
        self._unhealthy: set[str] = set()  # nodes whose pods must be reconciled one by one
        self._tainted_since: dict[str, float] = {}  # nodes with NoExecute taints: since when
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)

    # ---- watch events -------------------------------------------------------------------------------------

    def on_pod_change(self, change: Change) -> None:
        """Handle a change of a pod."""
        node = change.object["spec"].get("nodeName")
        if not node:
            return
        pods = self._pods_by_node.setdefault(node, set())
        if change.deleted:
            pods.discard(change.key)
            if not pods:
                del self._pods_by_node[node]
                self._missing_since.pop(node, None)
            return
        if change.key not in pods:
            pods.add(change.key)
            if node in self._unhealthy or node not in self._last_heartbeat:
                self.work_queue.add(node)

    def on_node_change(self, change: Change) -> None:
        """Handle a change of a node."""
        node = change.object
        name = node["metadata"]["name"]
        if change.deleted:
            self._last_heartbeat.pop(name, None)
            self._unhealthy.discard(name)
            self._tainted_since.pop(name, None)
        else:
            self._missing_since.pop(name, None)
            identity = self._api.identity
            if is_simulated(node, identity):
                # A simulated node sends no heartbeats: it is alive until the moment it is lost.
                alive = not (is_lost(node, identity) and is_lost(change.old or node, identity))
            else:
                alive = change.old is None or _heartbeat(node) != _heartbeat(change.old)
            if alive or name not in self._last_heartbeat:
                self._last_heartbeat[name] = self._clock.steady()
        self.work_queue.add(name)

    def on_lease_change(self, lease: Object) -> None:
        """Handle a lease renewal."""
        name = lease["metadata"]["name"]
        if name in self._last_heartbeat:
            self._last_heartbeat[name] = self._clock.steady()
            if name in self._unhealthy:
                self.work_queue.add(name)

    # ---- one node -----------------------------------------------------------------------------------------

    async def _reconcile(self, name: str) -> float | None:
        node = self._api.read("nodes", "", name)
        if node is None:
            return await self._delete_pods_of_missing_node(name)
        left = self._seconds_until_unknown(node)
        if left is not None and left <= 0:
            await self._mark_unknown(node)
            left = None
        node = await self._api.modify("nodes", "", name, lambda found: _update_taints(found, self._now()))
        if node is None:
            return 0.0
        waits = [left] if left is not None else []
        found = no_execute_taints(node)
        if found or not is_condition_true(node.get("status") or {}, "Ready"):
            self._unhealthy.add(name)
            waits += await self._reconcile_pods(node)
        else:
            self._unhealthy.discard(name)
            self._tainted_since.pop(name, None)
        return min(waits) if waits else None

    def _seconds_until_unknown(self, node: Object) -> float | None:
        """Real seconds until a node without heartbeats becomes Unknown; None if it is alive or Unknown already."""
        name = node["metadata"]["name"]
        ready = find_condition(node.get("status") or {}, "Ready")
        if ready is not None and ready["status"] == "Unknown":
            return None
        if is_simulated(node, self._api.identity) and not is_lost(node, self._api.identity):
            return None
        return (
            self._last_heartbeat.setdefault(name, self._clock.steady())
            + self._clock.real(NODE_MONITOR_GRACE_SECONDS)
            - self._clock.steady()
        )

    async def _mark_unknown(self, node: Object) -> None:
        name, now = node["metadata"]["name"], self._now()

        def edit(found: Object) -> None:
            status = found.setdefault("status", {})
            for kind in UNKNOWN_CONDITIONS:
                known = find_condition(status, kind) is not None
                reason = "NodeStatusUnknown" if known else "NodeStatusNeverUpdated"
                message = "Kubelet stopped posting node status." if known else "Kubelet never posted node status."
                set_condition(status, {"type": kind, "status": "Unknown", "reason": reason, "message": message}, now)

        await self._api.modify("nodes", "", name, edit, subresource="status", uid=node["metadata"]["uid"])
        await self._events.record_normal(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")

    async def _reconcile_pods(self, node: Object) -> list[float]:
        """Mark the pods of an unhealthy node not ready and evict them. Returns delays until the next evictions."""
        name, found = node["metadata"]["name"], no_execute_taints(node)
        unknown = (find_condition(node.get("status") or {}, "Ready") or {}).get("status") == "Unknown"
        abandoned = unknown and any(taint["key"] == OUT_OF_SERVICE for taint in found)
        start = self._eviction_start(name, found)
        waits: list[float] = []
        acts = []
        for key in sorted(self._pods_by_node.get(name, ())):
            pod = self._api.read(*split_key(key))
            if pod is None or pod["spec"].get("nodeName") != name:
                continue
            if unknown and is_condition_true(pod.get("status") or {}, "Ready"):
                acts.append(self._write_status(pod, self._set_not_ready))
            if "deletionTimestamp" in pod["metadata"]:
                if abandoned:
                    acts.append(self._force_delete(pod, "PodGC: node is out of service"))
                continue
            seconds = toleration_seconds(pod, found)
            if seconds is None:
                continue
            left = start + self._clock.real(seconds) - self._clock.now()
            if left <= 0:
                acts.append(self._evict(pod))
            else:
                waits.append(left)
        await asyncio.gather(*acts)
        return waits

    def _eviction_start(self, node: str, found: list[Taint]) -> float:
        """The time from which toleration seconds count. A taint stores whole seconds only; a new one is timed here."""
        now = self._clock.now()
        if not found:
            self._tainted_since.pop(node, None)
        elif node not in self._tainted_since:
            start = first_added(found, now)
            self._tainted_since[node] = now if now - start < 1 else start
        return self._tainted_since.get(node, now)

    async def _evict(self, pod: Object) -> None:
        about = pod["metadata"]
        text = "Taint manager: deleting due to NoExecute taint"
        await self._write_status(
            pod, lambda status: self._set_disruption_target(status, "DeletionByTaintManager", text)
        )
        where = f"{about['namespace']}/{about['name']}"
        await self._events.record_normal(pod, "TaintManagerEviction", f"Marking for deletion Pod {where}")
        await self._api.delete("pods", about["namespace"], about["name"], uid=about["uid"])

    async def _delete_pods_of_missing_node(self, node: str) -> float | None:
        """Remove the pods of a missing node after a quarantine, because it may be about to register."""
        if not self._pods_by_node.get(node):
            self._missing_since.pop(node, None)
            return None
        start = self._missing_since.setdefault(node, self._clock.steady())
        left = start + self._clock.real(POD_GC_QUARANTINE_SECONDS) - self._clock.steady()
        if left > 0:
            return left
        pods = [self._api.read(*split_key(key)) for key in sorted(self._pods_by_node.get(node, ()))]
        gone = "PodGC: node no longer exists"
        await asyncio.gather(
            *(self._force_delete(pod, gone) for pod in pods if pod and pod["spec"].get("nodeName") == node)
        )
        self._missing_since.pop(node, None)  # later pods get the same quarantine
        return None

    async def _force_delete(self, pod: Object, why: str) -> None:
        """Force the deletion of a pod whose kubelet does not respond."""
        about = pod["metadata"]

        def fail(status: Object) -> None:
            self._set_disruption_target(status, "DeletionByPodGC", why)
            status["phase"] = "Failed"

        if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}:
            await self._write_status(pod, fail)
        await self._api.delete("pods", about["namespace"], about["name"], grace=0, uid=about["uid"])

    async def _write_status(self, pod: Object, change: Callable[[Object], None]) -> None:
        about = pod["metadata"]

        def edit(found: Object) -> None:
            change(found.setdefault("status", {}))

        where = about["namespace"], about["name"]
        await self._api.modify("pods", *where, edit, subresource="status", uid=about["uid"])

    def _set_not_ready(self, status: Object) -> None:
        set_condition(status, {"type": "Ready", "status": "False"}, self._now())

    def _set_disruption_target(self, status: Object, reason: str, message: str) -> None:
        entry = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        set_condition(status, entry, self._now())

    def _now(self) -> str:
        return stamp(self._clock.now())


def _heartbeat(node: Object) -> str | None:
    return (find_condition(node.get("status") or {}, "Ready") or {}).get("lastHeartbeatTime")


def _update_taints(node: Object, now: str) -> None:
    wanted = desired_taints(node, now)
    spec = node.setdefault("spec", {})
    if wanted != (spec.get("taints") or []):
        spec["taints"] = wanted


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the node lifecycle controller until cancelled."""
    controller = NodeLifecycleController(api, clock)

    async def follow_pods() -> None:
        async for batch in api.follow("pods"):
            for change in batch:
                controller.on_pod_change(change)

    async def follow_leases() -> None:
        async for batch in api.follow(LEASES, LEASE_NAMESPACE):
            for change in batch:
                if not change.deleted:
                    controller.on_lease_change(change.object)

    async with asyncio.TaskGroup() as tasks:
        async for batch in api.follow("nodes"):
            for change in batch:
                controller.on_node_change(change)
            if not batch:  # whether a pod's node is missing is known once all nodes are
                tasks.create_task(follow_pods())
                tasks.create_task(follow_leases())
                tasks.create_task(controller.work_queue.run())
