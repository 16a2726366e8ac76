"""The Deployment controller: executes the plan of ``rollout`` on ReplicaSets, and reports progress in the status."""

from __future__ import annotations

import copy

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, stamp
from kubesim.controllers.apps.replicasets import FAILURE, REPLICA_SETS
from kubesim.controllers.apps.rollout import (
    HASH_LABEL,
    REVISION,
    initial_replicas,
    new_replica_set,
    plan_rollout,
    replica_set_annotations,
    replicas,
    revision,
    size_annotations,
    surge_and_unavailable,
    template_hash,
)
from kubesim.controllers.conditions import find_condition, set_condition
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import (
    ControllerRefs,
    add_controller_ref,
    controller_of,
    is_being_deleted,
    new_controller_ref,
    remove_controller_ref,
)
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object
from kubesim.storage import Change

DEPLOYMENTS = "deployments.apps"
PROGRESS = ("updatedReplicas", "readyReplicas", "availableReplicas")


def build_replica_set(deployment: Object, sets: list[Object], number: int) -> Object:
    """The ReplicaSet of the present template."""
    about, spec = deployment["metadata"], deployment["spec"]
    short = template_hash(deployment)
    template = copy.deepcopy(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: short}
    template.setdefault("metadata", {})["labels"] = labels
    selector = copy.deepcopy(spec["selector"])
    selector.setdefault("matchLabels", {})[HASH_LABEL] = short
    return {
        "metadata": {
            "name": f"{about['name']}-{short}",
            "labels": labels,
            "annotations": {**replica_set_annotations(deployment, None, number), **size_annotations(deployment)},
            "ownerReferences": [new_controller_ref(deployment)],
        },
        "spec": {
            "replicas": initial_replicas(deployment, sets),
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }


def status_of(deployment: Object, sets: list[Object], now: str, clock: Clock) -> Object:
    """How far a Deployment is."""
    spec, before = deployment["spec"], deployment.get("status") or {}
    new = new_replica_set(deployment, sets)

    def total(count: str) -> int:
        return sum((one.get("status") or {}).get(count, 0) for one in sets)

    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": ((new or {}).get("status") or {}).get("replicas", 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "unavailableReplicas": max(0, sum(map(replicas, sets)) - total("availableReplicas")),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = total("terminatingReplicas")
    status["observedGeneration"] = deployment["metadata"].get("generation", 0)
    status["conditions"] = copy.deepcopy(before.get("conditions") or [])
    if before.get("collisionCount"):
        status["collisionCount"] = before["collisionCount"]
    _set_conditions(
        status, _available(counts["availableReplicas"] >= spec["replicas"] - surge_and_unavailable(deployment)[1]), now
    )
    moved = any(counts[name] != before.get(name, 0) for name in PROGRESS)
    _set_conditions(status, _progressing(deployment, new, counts, moved, clock), now, updated=moved)
    failures = (find_condition(one.get("status") or {}, FAILURE) for one in (new, *sets) if one)
    failure = next((found for found in failures if found), None)
    if failure:
        _set_conditions(status, {name: failure.get(name, "") for name in ("type", "status", "reason", "message")}, now)
    else:
        status["conditions"] = [entry for entry in status["conditions"] if entry["type"] != FAILURE]
    return status


def _set_conditions(status: Object, said: Object, now: str, *, updated: bool = False) -> None:
    before = find_condition(status, said["type"])
    same = before is not None and (before["status"], before["reason"]) == (said["status"], said["reason"])
    since = before["lastUpdateTime"] if before is not None and same and not updated else now
    set_condition(status, {**said, "lastUpdateTime": since}, now)


def _available(enough: bool) -> Object:
    if enough:
        reason, words = "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        reason, words = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return {"type": "Available", "status": "True" if enough else "False", "reason": reason, "message": words}


def _progressing(deployment: Object, new: Object | None, counts: Object, moved: bool, clock: Clock) -> Object:
    spec, about = deployment["spec"], deployment["metadata"]
    name = new["metadata"]["name"] if new else ""
    wanted = spec["replicas"]
    done = counts["updatedReplicas"] == counts["replicas"] == wanted == counts["availableReplicas"]
    said = {"type": "Progressing", "status": "True"}
    if done:
        words = f'ReplicaSet "{name}" has successfully progressed.'
        return {**said, "reason": "NewReplicaSetAvailable", "message": words}
    before = find_condition(deployment.get("status") or {}, "Progressing") or {}
    late = before.get("reason") == "ProgressDeadlineExceeded"
    if spec.get("paused") and not late:
        return {**said, "status": "Unknown", "reason": "DeploymentPaused", "message": "Deployment is paused"}
    waited = clock.since(before["lastUpdateTime"]) if before.get("lastUpdateTime") else 0.0
    rested = before.get("reason") in {"NewReplicaSetAvailable", "DeploymentPaused"}
    if not moved and not rested and waited > spec["progressDeadlineSeconds"]:
        words = (
            f'ReplicaSet "{name}" has timed out progressing.' if new else f'Deployment "{about["name"]}" has timed out.'
        )
        return {**said, "status": "False", "reason": "ProgressDeadlineExceeded", "message": words}
    if new is None or before.get("reason") is None:
        words = f'Created new replica set "{name}"' if new else "The ReplicaSet of its template is to come."
        return {**said, "reason": "NewReplicaSetCreated", "message": words}
    return {**said, "reason": "ReplicaSetUpdated", "message": f'ReplicaSet "{name}" is progressing.'}


class DeploymentController:
    """Reconciles Deployments."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "deployment-controller", clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.replica_sets = ControllerRefs(api, REPLICA_SETS, "apps/v1", "Deployment", self.work_queue.add)

    def on_pod_change(self, change: Change) -> None:
        """Handle a change of a pod: with Recreate, a Deployment waits until the last old pod is gone."""
        owner = controller_of(change.object) if change.deleted else None
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        namespace = change.object["metadata"]["namespace"]
        replica_set = self._api.read(REPLICA_SETS, namespace, owner["name"])
        if replica_set is not None and (deployment := controller_of(replica_set)):
            self.work_queue.add(f"{namespace}/{deployment['name']}/{deployment['uid']}")

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        deployment = self._api.read(DEPLOYMENTS, namespace, name)
        if deployment is None or deployment["metadata"]["uid"] != uid:
            return None
        sets = await self.replica_sets.claim_children(
            deployment,
            adopt=lambda one: add_controller_ref(one, deployment),
            release=lambda one: remove_controller_ref(one, uid),
        )
        if not is_being_deleted(deployment):
            await self._roll_out(deployment, sets)
        status = status_of(deployment, sets, stamp(self._clock.now()), self._clock)

        def edit(found: Object) -> None:
            found["status"] = status

        if status != deployment.get("status"):
            await self._api.modify(DEPLOYMENTS, namespace, name, edit, subresource="status", uid=uid)
        progressing = find_condition(status, "Progressing")
        waits = progressing is not None and progressing["reason"] in {"NewReplicaSetCreated", "ReplicaSetUpdated"}
        return self._clock.real(deployment["spec"]["progressDeadlineSeconds"] + 1) if waits else None

    async def _roll_out(self, deployment: Object, sets: list[Object]) -> None:
        rollout = plan_rollout(deployment, sets, self._count_old_pods(deployment, sets))
        if rollout.create:
            await self._create_replica_set(deployment, sets)
        new = new_replica_set(deployment, sets)
        if new is not None:
            await self._set_revision(deployment, new, sets)
        by_name = {one["metadata"]["name"]: one for one in sets}
        for name, count in rollout.scale.items():
            await self._scale(deployment, by_name[name], count)
        for name in rollout.delete:
            await self.replica_sets.delete(by_name[name])

    def _count_old_pods(self, deployment: Object, sets: list[Object]) -> int:
        """The number of pods of earlier templates, including those that are being deleted."""
        if deployment["spec"]["strategy"]["type"] != "Recreate":
            return 0
        new = new_replica_set(deployment, sets)
        old = {one["metadata"]["uid"] for one in sets if one is not new}
        pods = self._api.list("pods", deployment["metadata"]["namespace"]) if old else ()
        return sum((controller_of(pod) or {}).get("uid") in old for pod in pods)

    async def _create_replica_set(self, deployment: Object, sets: list[Object]) -> None:
        about = deployment["metadata"]
        new = build_replica_set(deployment, sets, 1 + max(map(revision, sets), default=0))
        try:
            made = await self._api.create(REPLICA_SETS, about["namespace"], new)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._count_hash_collision(deployment, new["metadata"]["name"])
            return
        name = made["metadata"]["name"]
        self.replica_sets.add_child(about["uid"], f"{REPLICA_SETS}/{about['namespace']}/{name}")
        sets.append(made)
        words = f"Scaled up replica set {name} from 0 to {replicas(made)}"
        await self._events.record_normal(deployment, "ScalingReplicaSet", words)

    async def _count_hash_collision(self, deployment: Object, name: str) -> None:
        """Handle a name that exists: a ReplicaSet of this Deployment not yet observed, or a foreign object."""
        about = deployment["metadata"]
        there = self._api.read(REPLICA_SETS, about["namespace"], name)
        if there is None or (controller_of(there) or {}).get("uid") == about["uid"]:
            return

        def edit(found: Object) -> None:
            found.setdefault("status", {})["collisionCount"] = found["status"].get("collisionCount", 0) + 1

        await self._api.modify(
            DEPLOYMENTS, about["namespace"], about["name"], edit, subresource="status", uid=about["uid"]
        )

    async def _set_revision(self, deployment: Object, new: Object, sets: list[Object]) -> None:
        """Give the current template the highest revision, also after a rollback."""
        others = max((revision(one) for one in sets if one is not new), default=0)
        number = revision(new) if revision(new) > others else others + 1
        said = replica_set_annotations(deployment, new, number)

        def describe(found: Object) -> None:
            found["metadata"]["annotations"] = said

        def edit(found: Object) -> None:
            found["metadata"].setdefault("annotations", {})[REVISION] = str(number)

        if said != new["metadata"].get("annotations"):
            await self.replica_sets.modify(new, describe)
        about = deployment["metadata"]
        if revision(deployment) != number:  # through the status subresource, which does not increase the generation
            await self._api.modify(
                DEPLOYMENTS, about["namespace"], about["name"], edit, subresource="status", uid=about["uid"]
            )

    async def _scale(self, deployment: Object, one: Object, count: int) -> None:
        before = replicas(one)

        def edit(found: Object) -> None:
            found["spec"]["replicas"] = count
            found["metadata"].setdefault("annotations", {}).update(size_annotations(deployment))

        await self.replica_sets.modify(one, edit)
        way = "up" if count > before else "down"
        words = f"Scaled {way} replica set {one['metadata']['name']} from {before} to {count}"
        await self._events.record_normal(deployment, "ScalingReplicaSet", words)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the Deployment controller until cancelled."""
    deployments = DeploymentController(api, clock)
    owned = deployments.replica_sets
    others = {DEPLOYMENTS: owned.on_owner_change, "pods": deployments.on_pod_change}
    await run_controller(api, deployments.work_queue, (REPLICA_SETS, owned.on_child_change), others)
