"""Taints that follow from a node's state, and how long pods tolerate NoExecute taints. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesim.clock import parse_time
from kubesim.controllers.conditions import find_condition
from kubesim.registry.registry import Object

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED = {(key, "NoSchedule") for key in (UNSCHEDULABLE, NOT_READY, UNREACHABLE, *_PRESSURE.values())} | {
    (key, "NoExecute") for key in (NOT_READY, UNREACHABLE)
}

Taint = dict[str, Any]


def desired_taints(node: Object, now: str) -> list[Taint]:
    """The desired taints of a node: foreign ones, and those that follow from its state."""
    wanted = _taints_for_state(node)
    present = (node.get("spec") or {}).get("taints") or []
    kept = [taint for taint in present if _taint_id(taint) not in _MANAGED or _taint_id(taint) in wanted]
    there = {_taint_id(taint) for taint in kept}
    return kept + [
        {"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in there
    ]


def _taints_for_state(node: Object) -> list[tuple[str, str]]:
    status = node.get("status") or {}
    wanted = []
    ready = (find_condition(status, "Ready") or {}).get("status", "Unknown")
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    for kind, key in _PRESSURE.items():
        if (find_condition(status, kind) or {}).get("status") == "True":
            wanted.append((key, "NoSchedule"))
    if (node.get("spec") or {}).get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    return wanted


def _taint_id(taint: Taint) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def no_execute_taints(node: Object) -> list[Taint]:
    """The NoExecute taints of a node."""
    return [taint for taint in (node.get("spec") or {}).get("taints") or () if taint["effect"] == "NoExecute"]


def toleration_seconds(pod: Object, found: Iterable[Taint]) -> float | None:
    """How many seconds a pod tolerates these NoExecute taints. None: forever."""
    shortest: float | None = None
    for taint in found:
        used = [t for t in pod["spec"].get("tolerations") or () if tolerates(t, taint)]
        if not used:
            return 0.0
        limits = [max(0, t["tolerationSeconds"]) for t in used if t.get("tolerationSeconds") is not None]
        if limits:
            shortest = min([*limits, *([] if shortest is None else [shortest])])
    return shortest


def tolerates(toleration: Object, taint: Taint) -> bool:
    """Whether a toleration matches a taint. An empty key with Exists matches all keys, an empty effect all effects."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def first_added(found: Iterable[Taint], seen: float) -> float:
    """When the first of the taints was added; ``seen`` if none records it."""
    return min((parse_time(taint["timeAdded"]) for taint in found if taint.get("timeAdded")), default=seen)
