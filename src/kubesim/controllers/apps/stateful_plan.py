"""The next step of a StatefulSet: which pods to create and to delete now, and its status. Pure.

Pods have ordinals. With ``OrderedReady`` each waits for those before it: pods are created from the lowest ordinal on,
deleted from the highest on, one at a time, and nothing happens while one of them is not ready. With ``Parallel`` all
are created and deleted at once. An update replaces pods of an earlier revision from the highest ordinal down to the
partition, one at a time (or ``maxUnavailable`` at a time); the partition keeps those below it at their revision.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Final

from kubesim.clock import Clock
from kubesim.controllers.apps.replicasets import seconds_until_available
from kubesim.controllers.apps.revisions import HASH_LABEL
from kubesim.controllers.controller_refs import is_being_deleted, new_controller_ref
from kubesim.controllers.jobs.job_pods import is_pod_finished, is_ready
from kubesim.kinds.apps import amount
from kubesim.registry.registry import Object

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_ORDINAL: Final = re.compile(r"-(0|[1-9][0-9]{0,9})\Z")


@dataclass(slots=True)
class StatefulPlan:
    """The pods to create and to delete now, and the status."""

    create: list[tuple[int, str]] = field(default_factory=list)
    """Ordinals, each with the name of the revision that its pod gets."""
    delete: list[Object] = field(default_factory=list)
    surplus: list[Object] = field(default_factory=list)
    """Those of the pods to delete that the set no longer wants, and whose claims may go with them."""
    status: Object = field(default_factory=dict)
    again: float | None = None
    """After how many seconds of the cluster the plan changes without an event."""


def ordinal_of(pod: Object, owner: Object) -> int | None:
    """The ordinal of a pod of a StatefulSet; None if its name is not one of the set's."""
    name, prefix = str(pod["metadata"]["name"]), owner["metadata"]["name"]
    found = _ORDINAL.search(name)
    return int(found[1]) if found and name[: found.start()] == prefix else None


def revision_of(pod: Object) -> str:
    """The name of the revision of a pod."""
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def plan_stateful_set(owner: Object, pods: list[Object], newest: str, clock: Clock) -> StatefulPlan:
    """The next step. ``newest`` is the name of the revision of the present template."""
    spec, before = owner["spec"], owner.get("status") or {}
    current = before.get("currentRevision") or newest
    start = spec.get("ordinals", {}).get("start", 0)
    wanted = range(start, start + spec["replicas"])
    by_ordinal = {number: pod for pod in pods if (number := ordinal_of(pod, owner)) is not None}
    plan = StatefulPlan()
    if not is_being_deleted(owner):
        scaled = _scale(plan, owner, by_ordinal, wanted, current, newest)
        if scaled and spec["updateStrategy"]["type"] == "RollingUpdate":
            _update(plan, owner, by_ordinal, wanted, newest, clock)
    plan.status, plan.again = _status(owner, pods, current, newest, clock)
    return plan


def _scale(
    plan: StatefulPlan, owner: Object, pods: dict[int, Object], wanted: range, current: str, newest: str
) -> bool:
    """Plan what is missing and what is too much. Returns whether an update may go on.

    With ``OrderedReady`` that is when all wanted pods are ready and no others exist, with ``Parallel`` when nothing
    else is to do: a template whose pods never become ready can then be replaced.
    """
    ordered = owner["spec"]["podManagementPolicy"] == "OrderedReady"
    partition = (owner["spec"]["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0)
    for number in wanted:
        pod = pods.get(number)
        if pod is None:
            plan.create.append((number, current if number - wanted.start < partition else newest))
        elif is_pod_finished(pod) and not is_being_deleted(pod):
            plan.delete.append(pod)
        if ordered and (pod is None or is_pod_finished(pod) or is_being_deleted(pod) or not is_ready(pod)):
            return False
    surplus = [pods[number] for number in sorted(pods, reverse=True) if number not in wanted]
    for pod in surplus:
        if not is_being_deleted(pod):
            plan.delete.append(pod)
            plan.surplus.append(pod)
        if ordered:
            return False
    return not plan.create and not plan.delete


def _update(
    plan: StatefulPlan, owner: Object, pods: dict[int, Object], wanted: range, newest: str, clock: Clock
) -> None:
    spec = owner["spec"]
    rolling = spec["updateStrategy"].get("rollingUpdate") or {}
    most = max(1, amount(rolling.get("maxUnavailable", 1), spec["replicas"]))
    least = spec.get("minReadySeconds", 0)

    def is_available(pod: Object) -> bool:
        wait = seconds_until_available(pod, least, clock)
        return wait is not None and wait <= 0 and not is_being_deleted(pod)

    unavailable = sum(not is_available(pods[number]) for number in wanted)
    for number in reversed(wanted[rolling.get("partition", 0) :]):
        pod = pods[number]
        if revision_of(pod) == newest or is_being_deleted(pod):
            continue
        if is_available(pod):
            if unavailable >= most:
                return
            unavailable += 1
        plan.delete.append(pod)


def _status(owner: Object, pods: list[Object], current: str, newest: str, clock: Clock) -> tuple[Object, float | None]:
    spec, before = owner["spec"], owner.get("status") or {}
    waits = [seconds_until_available(pod, spec.get("minReadySeconds", 0), clock) for pod in pods]
    staying = [revision_of(pod) for pod in pods if not is_being_deleted(pod)]
    ready, updated = sum(map(is_ready, pods)), staying.count(newest)
    rolls = spec["updateStrategy"]["type"] == "RollingUpdate"
    if rolls and updated == len(pods) == ready == spec["replicas"]:
        current = newest
    counts = {"readyReplicas": ready, "currentReplicas": staying.count(current), "updatedReplicas": updated}
    status: Object = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        "availableReplicas": sum(wait is not None and wait <= 0 for wait in waits),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": newest,
        "collisionCount": before.get("collisionCount", 0),
    }
    if before.get("conditions"):
        status["conditions"] = before["conditions"]
    return status, min((wait for wait in waits if wait is not None and wait > 0), default=None)


def new_pod(owner: Object, ordinal: int, revision: str, template: Object) -> Object:
    """The pod of an ordinal, from the template of a revision."""
    about, spec = owner["metadata"], template["spec"]
    name = f"{about['name']}-{ordinal}"
    given = template.get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        HASH_LABEL: revision,
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(ordinal),
    }
    kept = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
    spec = {**spec, "hostname": name, "volumes": _volumes(owner, name, spec)}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    return {
        "metadata": {**kept, "name": name, "labels": labels, "ownerReferences": [new_controller_ref(owner)]},
        "spec": spec,
    }


def _volumes(owner: Object, pod: str, spec: Object) -> list[Object]:
    """The volumes of the template, and one for each claim of the pod; claims win."""
    claims = {claim["metadata"]["name"]: claim for claim in owner["spec"].get("volumeClaimTemplates") or ()}
    own = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod}"}} for name in claims]
    return own + [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]


def claim_retention(owner: Object, when: str) -> str:
    """What happens to claims ``whenDeleted`` or ``whenScaled``: Retain or Delete."""
    return str((owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))


def claim_names(owner: Object, pod: str) -> list[str]:
    """The names of the claims of a pod."""
    return [f"{claim['metadata']['name']}-{pod}" for claim in owner["spec"].get("volumeClaimTemplates") or ()]


def new_claims(owner: Object, pod: str) -> list[Object]:
    """The PersistentVolumeClaims of a pod. They go with the set if its retention policy says so."""
    claims = []
    leaves = claim_retention(owner, "whenDeleted") == "Delete"
    owners = {"ownerReferences": [new_controller_ref(owner)]} if leaves else {}
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        about = template["metadata"]
        labels = {**(about.get("labels") or {}), **(owner["spec"]["selector"].get("matchLabels") or {})}
        kept = {"annotations": about["annotations"]} if about.get("annotations") else {}
        metadata = {**kept, **owners, "name": f"{about['name']}-{pod}", "labels": labels}
        claims.append({"metadata": metadata, "spec": copy.deepcopy(template.get("spec") or {})})
    return claims
