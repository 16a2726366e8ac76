"""The DaemonSet controller: executes the plan of ``daemon_plan``, and records the templates of each set."""

from __future__ import annotations

import asyncio
from typing import Final

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.apps.daemon_plan import DaemonPlan, new_pod, node_of, plan_daemon_set
from kubesim.controllers.apps.revisions import HASH_LABEL, delete_beyond_limit, sync_history
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import ControllerRefs, add_controller_ref, remove_controller_ref
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object
from kubesim.storage import Change

DAEMON_SETS: Final = "daemonsets.apps"


class DaemonSetController:
    """Reconciles DaemonSets."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "daemonset-controller", clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.pods = ControllerRefs(api, "pods", "apps/v1", "DaemonSet", self.work_queue.add)

    def on_node_change(self, change: Change) -> None:
        """Handle a change of a node: all sets are reconciled if it may have other pods now."""
        if change.deleted or change.old is None or _placement(change.object) != _placement(change.old):
            for owner in self._api.list(DAEMON_SETS):
                about = owner["metadata"]
                self.work_queue.add(f"{about['namespace']}/{about['name']}/{about['uid']}")

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        owner = self._api.read(DAEMON_SETS, namespace, name)
        if owner is None or owner["metadata"]["uid"] != uid:
            return None
        history = await sync_history(self._api, owner)
        claimed = await self.pods.claim_children(
            owner, adopt=lambda pod: add_controller_ref(pod, owner), release=lambda pod: remove_controller_ref(pod, uid)
        )
        pods = [pod for pod in claimed if node_of(pod)]
        newest = history.newest["metadata"]["labels"][HASH_LABEL]
        plan = plan_daemon_set(owner, pods, self._api.list("nodes"), newest, self._clock)
        await self._execute_plan(owner, plan, newest)
        hashes = {(pod["metadata"].get("labels") or {}).get(HASH_LABEL) for pod in pods}
        live = {one["metadata"]["name"] for one in history.revisions if one["metadata"]["labels"][HASH_LABEL] in hashes}
        await delete_beyond_limit(self._api, owner, history, live)
        return None if plan.again is None else self._clock.real(plan.again)

    async def _execute_plan(self, owner: Object, plan: DaemonPlan, newest: str) -> None:
        about = owner["metadata"]
        for pod in plan.failed:
            words = f"Found failed daemon pod {about['namespace']}/{pod['metadata']['name']} on node {node_of(pod)}, "
            await self._events.record_warning(owner, "FailedDaemonPod", f"{words}will try to kill it")
        await asyncio.gather(*(self._delete_pod(owner, pod) for pod in plan.delete))
        await asyncio.gather(*(self._create_pod(owner, new_pod(owner, node, newest)) for node in plan.create))

        def edit(found: Object) -> None:
            found["status"] = plan.status

        if plan.status != owner.get("status"):
            where = about["namespace"], about["name"]
            await self._api.modify(DAEMON_SETS, *where, edit, subresource="status", uid=about["uid"])

    async def _create_pod(self, owner: Object, wanted: Object) -> None:
        about = owner["metadata"]
        try:
            pod = await self._api.create("pods", about["namespace"], wanted)
        except ApiError as error:
            if "being terminated" in error.message:
                return
            await self._events.record_warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        name = pod["metadata"]["name"]
        self.pods.add_child(about["uid"], f"pods/{about['namespace']}/{name}")
        await self._events.record_normal(owner, "SuccessfulCreate", f"Created pod: {name}")

    async def _delete_pod(self, owner: Object, pod: Object) -> None:
        await self.pods.delete(pod)
        await self._events.record_normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def _placement(node: Object) -> tuple[object, object]:
    """What of a node decides which pods it may have."""
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the DaemonSet controller until cancelled."""
    sets = DaemonSetController(api, clock)
    others = {DAEMON_SETS: sets.pods.on_owner_change, "nodes": sets.on_node_change}
    await run_controller(api, sets.work_queue, ("pods", sets.pods.on_child_change), others)
