"""Rollouts: how many pods each ReplicaSet of a Deployment should have now.

A Deployment has one ReplicaSet for each template it ever had; the one of the current template is the new ReplicaSet.
A rollout moves pods from the old ReplicaSets to it: it deletes all old pods first (``Recreate``), or proceeds step by
step, with at most ``maxSurge`` pods more than desired and at most ``maxUnavailable`` fewer available. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubesim.kinds.apps import amount
from kubesim.registry.registry import Object

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
FORMER_REVISIONS = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
HASH_LENGTH = 10
NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    FORMER_REVISIONS,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
}
LONGEST_HISTORY = 2000  # characters; the oldest revisions are dropped first
LONGEST_REVISION = 18  # digits; users can write anything there

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True)
class Rollout:
    """The next step of a rollout."""

    create: bool = False
    """Whether to create the ReplicaSet of the current template."""
    scale: dict[str, int] = field(default_factory=dict)
    """The desired replicas of ReplicaSets to scale, by name."""
    delete: list[str] = field(default_factory=list)
    """Old ReplicaSets beyond the revision history limit."""


def template_of(replica_set: Object) -> Any:
    """The template of a ReplicaSet without the hash label, as its Deployment had it."""
    template = replica_set["spec"]["template"]
    about = dict(template.get("metadata") or {})
    about["labels"] = {name: value for name, value in (about.get("labels") or {}).items() if name != HASH_LABEL}
    return _normalize_template({**template, "metadata": about})


def _normalize_template(template: Object) -> Object:
    about = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    return {"metadata": about, "spec": template.get("spec")}


def new_replica_set(deployment: Object, sets: list[Object]) -> Object | None:
    """The ReplicaSet of the current template; the oldest if there are several."""
    wanted = _normalize_template(deployment["spec"]["template"])
    return next((one for one in sorted(sets, key=_age) if template_of(one) == wanted), None)


def _age(found: Object) -> tuple[str, str]:
    return found["metadata"].get("creationTimestamp", ""), found["metadata"]["name"]


def template_hash(deployment: Object) -> str:
    """The hash of the current template; it changes with the collision count."""
    import hashlib  # it loads OpenSSL, which a cluster without Deployments does not need

    collisions = (deployment.get("status") or {}).get("collisionCount", 0)
    digest = hashlib.sha256(_encode([_normalize_template(deployment["spec"]["template"]), collisions])).digest()
    return "".join(HASH_ALPHABET[byte % len(HASH_ALPHABET)] for byte in digest[:HASH_LENGTH])


def replica_set_annotations(deployment: Object, one: Object | None, number: int) -> dict[str, str]:
    """The annotations of the new ReplicaSet: those of its Deployment, its revision and former revisions."""
    before = ((one or {}).get("metadata") or {}).get("annotations") or {}
    own = deployment["metadata"].get("annotations") or {}
    carried = {name: value for name, value in own.items() if name not in NOT_COPIED}
    found = {**before, **carried, REVISION: str(number)}
    former = before.get(REVISION)
    if former and former != str(number):
        numbers = [*filter(None, before.get(FORMER_REVISIONS, "").split(",")), former]
        while len(",".join(numbers)) > LONGEST_HISTORY:
            del numbers[0]
        found[FORMER_REVISIONS] = ",".join(numbers)
    return found


def size_annotations(deployment: Object) -> dict[str, str]:
    """The annotations with desired and maximum replicas of a Deployment."""
    wanted = deployment["spec"]["replicas"]
    return {DESIRED_REPLICAS: str(wanted), MAX_REPLICAS: str(wanted + surge_and_unavailable(deployment)[0])}


def replicas(one: Object) -> int:
    """The desired replicas of a ReplicaSet."""
    return int(one["spec"].get("replicas", 1))


def _available(one: Object) -> int:
    return int((one.get("status") or {}).get("availableReplicas", 0))


def surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """maxSurge and maxUnavailable of a Deployment, as numbers of pods."""
    wanted = deployment["spec"]["replicas"]
    rolling = deployment["spec"]["strategy"].get("rollingUpdate")
    if rolling is None:
        return 0, 0
    surge = amount(rolling["maxSurge"], wanted, up=True)
    missing = min(amount(rolling["maxUnavailable"], wanted), wanted)
    return surge, missing if surge or missing else 1


def plan_rollout(deployment: Object, sets: list[Object], pods_there: int) -> Rollout:
    """The next step. ``pods_there`` is the number of existing pods of old ReplicaSets, in any phase."""
    spec = deployment["spec"]
    new = new_replica_set(deployment, sets)
    old = sorted((one for one in sets if one is not new), key=_age)
    rollout = Rollout()
    if spec.get("paused"):
        active = [one for one in sets if replicas(one)] or [one for one in (new,) if one]
        if len(active) == 1:  # a paused Deployment is still scaled
            _scale(rollout, active[0], spec["replicas"])
        return rollout
    if spec["strategy"]["type"] == "Recreate":
        for one in old:
            _scale(rollout, one, 0)
        if not pods_there:
            _scale_new(rollout, new, spec["replicas"])
    else:
        _roll_update(rollout, deployment, new, old)
    if new is not None and not rollout.scale and _available(new) >= spec["replicas"]:
        _delete_beyond_history(rollout, deployment, old)
    return rollout


def _scale(rollout: Rollout, one: Object, count: int) -> None:
    if replicas(one) != count:
        rollout.scale[one["metadata"]["name"]] = count


def _scale_new(rollout: Rollout, new: Object | None, count: int) -> None:
    if new is None:
        rollout.create = True
    else:
        _scale(rollout, new, count)


def initial_replicas(deployment: Object, sets: list[Object]) -> int:
    """The initial replicas of a new ReplicaSet."""
    spec = deployment["spec"]
    if spec["strategy"]["type"] == "Recreate":
        return int(spec["replicas"])
    surge, _ = surge_and_unavailable(deployment)
    wanted = int(spec["replicas"])
    return max(0, min(wanted, wanted + surge - sum(map(replicas, sets))))


def _roll_update(rollout: Rollout, deployment: Object, new: Object | None, old: list[Object]) -> None:
    wanted = deployment["spec"]["replicas"]
    surge, missing = surge_and_unavailable(deployment)
    if new is None:
        rollout.create = True
        return
    now = replicas(new)
    total = now + sum(map(replicas, old))
    if now > wanted:
        _scale(rollout, new, wanted)
    elif now < wanted and total < wanted + surge:
        _scale(rollout, new, min(wanted, now + wanted + surge - total))
        return
    _scale_down_old(rollout, old, total, wanted - missing, now - _available(new))


def _scale_down_old(rollout: Rollout, old: list[Object], total: int, least: int, unborn: int) -> None:
    """Scale down old ReplicaSets while enough pods stay available; unavailable pods first."""
    spare = total - least - max(0, unborn)
    left = {one["metadata"]["name"]: replicas(one) for one in old}
    for one in old:
        name, useless = one["metadata"]["name"], max(0, replicas(one) - _available(one))
        gone = min(useless, max(0, spare))
        left[name] -= gone
        spare -= gone
    for one in old:
        name = one["metadata"]["name"]
        gone = min(left[name], max(0, spare))
        left[name] -= gone
        spare -= gone
    for one in old:
        _scale(rollout, one, left[one["metadata"]["name"]])


def _delete_beyond_history(rollout: Rollout, deployment: Object, old: list[Object]) -> None:
    empty = [one for one in old if not replicas(one) and not (one.get("status") or {}).get("replicas")]
    empty.sort(key=revision)
    beyond = len(empty) - deployment["spec"]["revisionHistoryLimit"]
    rollout.delete = [one["metadata"]["name"] for one in empty[: max(0, beyond)]]


def revision(found: Object) -> int:
    """The revision of a ReplicaSet or Deployment, from 1; 0 if the annotation is malformed."""
    text = (found["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() and len(text) <= LONGEST_REVISION else 0
