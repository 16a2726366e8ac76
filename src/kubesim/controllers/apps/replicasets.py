"""The ReplicaSet controller: creates and deletes pods until there are as many as desired.

ReplicationControllers are reconciled by the same code (``replication_controllers``): they are ReplicaSets of another
name, with a simpler selector.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kubebase.label_selector import matches
from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, parse_time, stamp
from kubesim.controllers.conditions import find_condition, set_condition
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import (
    ControllerRefs,
    SelectorOf,
    add_controller_ref,
    is_being_deleted,
    new_controller_ref,
    remove_controller_ref,
    spec_selector,
)
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.jobs.job_pods import is_active, is_ready, phase
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

REPLICA_SETS = "replicasets.apps"
BURST = 500
"""The maximum number of pods created or deleted in one reconciliation, as in kube-controller-manager."""
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
COST = "controller.kubernetes.io/pod-deletion-cost"
LONGEST_COST = 10  # digits of an int32
FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class ReplicatedKind:
    """A kind whose objects want a number of equal pods."""

    resource: str
    api_version: str
    kind: str
    component: str
    """The source of its events."""
    selector_of: SelectorOf = spec_selector
    counts_terminating: bool = True
    """Whether its status counts the pods that are being deleted."""


REPLICA_SET: Final = ReplicatedKind(REPLICA_SETS, "apps/v1", "ReplicaSet", "replicaset-controller")


def seconds_until_available(pod: Object, least: int, clock: Clock) -> float | None:
    """In how many seconds a pod will have been ready for long enough; 0 or less: it has. None: it is not ready."""
    ready = find_condition(pod.get("status") or {}, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    return least - clock.since(ready["lastTransitionTime"]) if least and ready.get("lastTransitionTime") else 0.0


def pods_to_delete(pods: list[Object], count: int) -> list[Object]:
    """Choose pods to delete: least advanced first, then lowest deletion cost, then youngest."""

    def worth(pod: Object) -> tuple[bool, int, bool, int, float, str]:
        about, placed = pod["metadata"], bool(pod["spec"].get("nodeName"))
        born = parse_time(about["creationTimestamp"]) if about.get("creationTimestamp") else 0.0
        return placed, PHASES.get(phase(pod), 0), is_ready(pod), _deletion_cost(pod), -born, about["name"]

    return sorted(pods, key=worth)[:count]


def _deletion_cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(COST, "")
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST_COST else 0


def new_pod(owner: Object) -> Object:
    """The next pod of a ReplicaSet."""
    template = copy.deepcopy(owner["spec"]["template"])
    about = template.get("metadata") or {}
    kept = {name: about[name] for name in ("labels", "annotations", "finalizers") if about.get(name)}
    name = {"generateName": f"{owner['metadata']['name']}-", "ownerReferences": [new_controller_ref(owner)]}
    return {"metadata": {**kept, **name}, "spec": template["spec"]}


def status_of(
    owner: Object, pods: list[Object], clock: Clock, failure: tuple[str, str] | None = None, leaving: int = 0
) -> tuple[Object, float | None]:
    """The status of a ReplicaSet, and after how many seconds it changes without an event.

    ``failure``: reason and message, if pods could not be created or deleted.
    ``leaving``: the number of pods that are being deleted.
    """
    spec, before = owner["spec"], owner.get("status") or {}
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    waits = [seconds_until_available(pod, spec.get("minReadySeconds", 0), clock) for pod in pods]
    counts = {
        "fullyLabeledReplicas": sum(matches({"matchLabels": labels}, p["metadata"].get("labels") or {}) for p in pods),
        "readyReplicas": sum(is_ready(pod) for pod in pods),
        "availableReplicas": sum(wait is not None and wait <= 0 for wait in waits),
    }
    status: Object = {"replicas": len(pods), **{name: count for name, count in counts.items() if count}}
    status["terminatingReplicas"] = leaving
    status["observedGeneration"] = owner["metadata"].get("generation", 0)
    others = [entry for entry in before.get("conditions") or () if entry.get("type") != FAILURE]
    if failure:
        earlier = find_condition(before, FAILURE)
        said = {"conditions": [earlier] if earlier else []}
        entry = {"type": FAILURE, "status": "True", "reason": failure[0], "message": failure[1]}
        set_condition(said, entry, stamp(clock.now()))
        others += said["conditions"]
    if others:
        status["conditions"] = others
    return status, min((wait for wait in waits if wait is not None and wait > 0), default=None)


class ReplicaSetController:
    """Reconciles the objects of a replicated kind."""

    def __init__(self, api: InProcessClient, clock: Clock, replicated: ReplicatedKind = REPLICA_SET) -> None:
        self._api = api
        self._clock = clock
        self._replicated = replicated
        self._events = EventRecorder(api, replicated.component, clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.pods = ControllerRefs(
            api, "pods", replicated.api_version, replicated.kind, self.work_queue.add, replicated.selector_of
        )

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        owner = self._api.read(self._replicated.resource, namespace, name)
        if owner is None or owner["metadata"]["uid"] != uid:
            return None
        pods = await self.pods.claim_children(
            owner, adopt=lambda pod: add_controller_ref(pod, owner), release=lambda pod: remove_controller_ref(pod, uid)
        )
        active = [pod for pod in pods if is_active(pod)]
        refused = None
        if not is_being_deleted(owner):
            active, refused = await self._scale_pods(owner, active)
        reason = "FailedCreate" if len(active) < owner["spec"]["replicas"] else "FailedDelete"
        leaving = sum(is_being_deleted(pod) and phase(pod) not in {"Succeeded", "Failed"} for pod in pods)
        failure = (reason, refused.message) if refused else None
        status, again = status_of(owner, active, self._clock, failure, leaving)
        if not self._replicated.counts_terminating:
            del status["terminatingReplicas"]

        def edit(found: Object) -> None:
            found["status"] = status

        if status != owner.get("status"):
            await self._api.modify(self._replicated.resource, namespace, name, edit, subresource="status", uid=uid)
        if refused:
            raise refused  # the work queue retries with back-off
        return None if again is None else self._clock.real(again)

    async def _scale_pods(self, owner: Object, active: list[Object]) -> tuple[list[Object], ApiError | None]:
        """Create or delete pods until there are as many as desired. Returns the pods, and the first error."""
        missing = owner["spec"].get("replicas", 1) - len(active)
        if missing < 0:
            gone = pods_to_delete(active, min(-missing, BURST))
            results = await asyncio.gather(*(self._delete_pod(owner, pod) for pod in gone), return_exceptions=True)
            done = {pod["metadata"]["name"] for pod, result in zip(gone, results, strict=True) if result is None}
            return [pod for pod in active if pod["metadata"]["name"] not in done], _first_api_error(results)
        made: list[Object | BaseException] = []
        while len(made) < min(missing, BURST) and _first_api_error(made) is None:
            several = min(2 * len(made) or 1, min(missing, BURST) - len(made))  # slow start
            made += await asyncio.gather(*(self._create_pod(owner) for _ in range(several)), return_exceptions=True)
        return active + [pod for pod in made if isinstance(pod, dict)], _first_api_error(made)

    async def _create_pod(self, owner: Object) -> Object:
        about = owner["metadata"]
        try:
            pod = await self._api.create("pods", about["namespace"], new_pod(owner))
        except ApiError as error:
            if "being terminated" not in error.message:
                await self._events.record_warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        name = pod["metadata"]["name"]
        self.pods.add_child(about["uid"], f"pods/{about['namespace']}/{name}")
        await self._events.record_normal(owner, "SuccessfulCreate", f"Created pod: {name}")
        return pod

    async def _delete_pod(self, owner: Object, pod: Object) -> None:
        await self.pods.delete(pod)
        await self._events.record_normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def _first_api_error(results: Sequence[object]) -> ApiError | None:
    """The first API error among results; any other exception is a bug, and raised."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ApiError):
            raise result
    return next((result for result in results if isinstance(result, ApiError)), None)


async def run(api: InProcessClient, clock: Clock, replicated: ReplicatedKind = REPLICA_SET) -> None:
    """Run the controller of a replicated kind until cancelled."""
    sets = ReplicaSetController(api, clock, replicated)
    owners = {replicated.resource: sets.pods.on_owner_change}
    await run_controller(api, sets.work_queue, ("pods", sets.pods.on_child_change), owners)
