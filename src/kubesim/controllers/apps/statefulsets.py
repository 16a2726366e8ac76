"""The StatefulSet controller: executes the plan of ``stateful_plan``, and records the templates of each set."""

from __future__ import annotations

from typing import Final

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.apps.revisions import RevisionHistory, delete_beyond_limit, sync_history
from kubesim.controllers.apps.stateful_plan import (
    StatefulPlan,
    claim_names,
    claim_retention,
    new_claims,
    new_pod,
    ordinal_of,
    plan_stateful_set,
    revision_of,
)
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import ControllerRefs, add_controller_ref, remove_controller_ref
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

STATEFUL_SETS: Final = "statefulsets.apps"
CLAIMS: Final = "persistentvolumeclaims"


class StatefulSetController:
    """Reconciles StatefulSets."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "statefulset-controller", clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.pods = ControllerRefs(api, "pods", "apps/v1", "StatefulSet", self.work_queue.add)

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        owner = self._api.read(STATEFUL_SETS, namespace, name)
        if owner is None or owner["metadata"]["uid"] != uid:
            return None
        history = await sync_history(self._api, owner)
        claimed = await self.pods.claim_children(
            owner, adopt=lambda pod: add_controller_ref(pod, owner), release=lambda pod: remove_controller_ref(pod, uid)
        )
        pods = [pod for pod in claimed if ordinal_of(pod, owner) is not None]
        plan = plan_stateful_set(owner, pods, history.newest["metadata"]["name"], self._clock)
        await self._execute_plan(owner, plan, history)
        live = {revision_of(pod) for pod in pods} | {plan.status["currentRevision"]}
        await delete_beyond_limit(self._api, owner, history, live)
        return None if plan.again is None else self._clock.real(plan.again)

    async def _execute_plan(self, owner: Object, plan: StatefulPlan, history: RevisionHistory) -> None:
        about = owner["metadata"]
        if claim_retention(owner, "whenScaled") == "Delete":
            for pod in plan.surplus:
                await self._give_claims_to_pod(owner, pod)
        for pod in plan.delete:
            await self.pods.delete(pod)
            words = f"delete Pod {pod['metadata']['name']} in StatefulSet {about['name']} successful"
            await self._events.record_normal(owner, "SuccessfulDelete", words)
        for ordinal, revision in plan.create:
            await self._create_pod(owner, new_pod(owner, ordinal, revision, history.template_of(revision, owner)))

        def edit(found: Object) -> None:
            found["status"] = plan.status

        if plan.status != owner.get("status"):
            where = about["namespace"], about["name"]
            await self._api.modify(STATEFUL_SETS, *where, edit, subresource="status", uid=about["uid"])

    async def _create_pod(self, owner: Object, pod: Object) -> None:
        about, name = owner["metadata"], pod["metadata"]["name"]
        try:
            await self._create_claims(owner, name)
            await self._api.create("pods", about["namespace"], pod)
        except ApiError as error:
            if error.reason == "AlreadyExists" or "being terminated" in error.message:
                return  # its deletion wakes this set again
            words = f"create Pod {name} in StatefulSet {about['name']} failed error: {error.message}"
            await self._events.record_warning(owner, "FailedCreate", words)
            raise
        self.pods.add_child(about["uid"], f"pods/{about['namespace']}/{name}")
        words = f"create Pod {name} in StatefulSet {about['name']} successful"
        await self._events.record_normal(owner, "SuccessfulCreate", words)

    async def _create_claims(self, owner: Object, pod: str) -> None:
        """Create the claims of a pod that are missing, where the cluster has claims; they outlive the pod."""
        if self._api.registry.stored(CLAIMS) is None:
            return
        namespace = owner["metadata"]["namespace"]
        for claim in new_claims(owner, pod):
            if self._api.read(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                await self._api.create(CLAIMS, namespace, claim)

    async def _give_claims_to_pod(self, owner: Object, pod: Object) -> None:
        """Make a pod the owner of its claims: the garbage collector deletes them once the pod is gone."""
        about = pod["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}

        def edit(claim: Object) -> None:
            claim["metadata"]["ownerReferences"] = [reference]

        if self._api.registry.stored(CLAIMS) is not None:
            for name in claim_names(owner, about["name"]):
                await self._api.modify(CLAIMS, about["namespace"], name, edit)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the StatefulSet controller until cancelled."""
    sets = StatefulSetController(api, clock)
    owners = {STATEFUL_SETS: sets.pods.on_owner_change}
    await run_controller(api, sets.work_queue, ("pods", sets.pods.on_child_change), owners)
