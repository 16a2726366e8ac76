"""What everybody may see of the jobs of others: names, queue, user, requests, where they run, and their phase.

Each kind has a list of the fields that are shown; everything else is left out: commands, environments, images, volumes,
messages, labels and annotations of the user's own. What is shown is enough for the scheduler's decision to be
explained (``pumice why``, ``pumice top``, the web page).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubesim.api.access import Principal, Show

Object = dict[str, Any]
Fields = dict[str, "Fields | bool"]
"""The fields that are shown: whole (True), or parts of them; a list is shown by its items."""

KNOWN_KEYS: Final = frozenset(
    {
        "pumice.dev/placed-by",
        "pumice.dev/routed",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/queue-name",
        "volcano.sh/gpu-index",
        "volcano.sh/job-name",
        "volcano.sh/job-namespace",
        "volcano.sh/job-version",
        "volcano.sh/preemptable",
        "volcano.sh/queue-name",
        "volcano.sh/sla-waiting-time",
        "volcano.sh/task-index",
        "volcano.sh/task-spec",
        "volcano.sh/user",
    }
)
"""Labels and annotations that are shown; those of users' own are not."""

_OWNER: Final[Fields] = dict.fromkeys(("apiVersion", "kind", "name", "uid", "controller"), True)
_METADATA: Final[Fields] = {
    **dict.fromkeys(
        (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ),
        True,
    ),
    "ownerReferences": _OWNER,
}
_CONDITION: Final[Fields] = dict.fromkeys(("type", "status", "reason", "lastTransitionTime", "transitionID"), True)
_AMOUNTS: Final[Fields] = {"requests": True, "limits": True}
_CONTAINER: Final[Fields] = {"name": True, "resources": _AMOUNTS, "ports": {"hostPort": True, "protocol": True}}
_POD_SPEC: Final[Fields] = {
    "containers": _CONTAINER,
    "initContainers": {**_CONTAINER, "restartPolicy": True},
    "affinity": {"nodeAffinity": True},
    "resources": _AMOUNTS,
    **dict.fromkeys(
        (
            "nodeName",
            "nodeSelector",
            "tolerations",
            "priority",
            "priorityClassName",
            "preemptionPolicy",
            "schedulerName",
            "schedulingGates",
            "overhead",
            "restartPolicy",
            "terminationGracePeriodSeconds",
        ),
        True,
    ),
}
_MOMENTS: Final[Fields] = {"startedAt": True, "finishedAt": True}
_STATE: Final[Fields] = {
    "waiting": {"reason": True},
    "running": _MOMENTS,
    "terminated": {"reason": True, "exitCode": True, **_MOMENTS},
}
_POD_STATUS: Final[Fields] = {
    "phase": True,
    "reason": True,
    "startTime": True,
    "qosClass": True,
    "nominatedNodeName": True,
    "conditions": _CONDITION,
    "containerStatuses": {"name": True, "ready": True, "started": True, "restartCount": True, "state": _STATE},
}
_JOB_STATUS: Final[Fields] = {
    "state": {"phase": True, "lastTransitionTime": True},
    **dict.fromkeys(
        ("minAvailable", "pending", "running", "succeeded", "failed", "terminating", "unknown", "version"), True
    ),
    "retryCount": True,
    "runningDuration": True,
    "taskStatusCount": True,
}
BUDGETS: Final = "poddisruptionbudgets.policy"
REDUCED: Final[dict[str, Fields]] = {
    "pods": {"metadata": _METADATA, "spec": _POD_SPEC, "status": _POD_STATUS},
    "podgroups.scheduling.volcano.sh": {
        "metadata": _METADATA,
        "spec": dict.fromkeys(
            (
                "queue",
                "minMember",
                "minTaskMember",
                "minResources",
                "priorityClassName",
                "networkTopology",
                "subGroupPolicy",
            ),
            True,
        ),
        "status": {
            "phase": True,
            "running": True,
            "succeeded": True,
            "failed": True,
            "conditions": _CONDITION,
        },
    },
    "jobs.batch.volcano.sh": {
        "metadata": _METADATA,
        "spec": {
            **dict.fromkeys(("queue", "minAvailable", "priorityClassName", "schedulerName", "maxRetry"), True),
            "tasks": {
                "name": True,
                "replicas": True,
                "minAvailable": True,
                "template": {"spec": {"containers": {"name": True, "resources": _AMOUNTS}}},
            },
        },
        "status": _JOB_STATUS,
    },
    "persistentvolumeclaims": {
        "metadata": _METADATA,
        "spec": dict.fromkeys(("accessModes", "resources", "storageClassName", "volumeMode", "volumeName"), True),
        "status": {"phase": True},
    },
    BUDGETS: {
        "metadata": _METADATA,
        "spec": dict.fromkeys(("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"), True),
        "status": {
            "conditions": _CONDITION,
            **dict.fromkeys(("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"), True),
        },
    },
}
"""By resource: the fields that are shown of objects of others. Objects of all other resources are not shown."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def show_to(who: Principal) -> Show:
    """Objects as somebody may see them: their own whole, others reduced."""
    own = who.namespace

    def show(key: str, value: bytes) -> bytes:
        resource, _, rest = key.partition("/")
        if own and rest.partition("/")[0] == own:
            return value
        return _encode(reduced(resource, _decode(value)))

    return show


def reduced(resource: str, found: Object) -> Object:
    """An object without what is its owner's alone."""
    fields = REDUCED[resource]
    shown = _chosen(found, {"apiVersion": True, "kind": True, **fields})
    selector = (found.get("spec") or {}).get("selector")
    if resource == BUDGETS and selector and _selects_by_known(selector):
        shown["spec"]["selector"] = selector
    about = found["metadata"]
    for part in ("labels", "annotations"):
        kept = {key: text for key, text in (about.get(part) or {}).items() if key in KNOWN_KEYS}
        if kept:
            shown["metadata"][part] = kept
    return shown


def _selects_by_known(selector: Object) -> bool:
    """Whether a selector names labels only that are shown of pods too; others would be of no use to anybody else."""
    named = {*(selector.get("matchLabels") or ()), *(each["key"] for each in selector.get("matchExpressions") or ())}
    return named <= KNOWN_KEYS


def _chosen(found: Object, fields: Fields) -> Object:
    shown: Object = {}
    for name, part in fields.items():
        if name not in found:
            continue
        value = found[name]
        shown[name] = value if part is True else _part(value, part)
    return shown


def _part(value: Any, fields: Any) -> Any:
    if isinstance(value, dict):
        return _chosen(value, fields)
    if isinstance(value, list):
        return [_chosen(each, fields) for each in value if isinstance(each, dict)]
    return None
