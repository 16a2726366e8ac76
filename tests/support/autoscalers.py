"""The rules by which cluster autoscalers choose the pods that they add nodes for, written out."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def needs_a_node(pod: Object) -> bool:
    """Cluster Autoscaler: unbound, not over, and its scheduler says Unschedulable (utils/kubernetes/listers.go)."""
    status = pod.get("status", {})
    if pod.get("spec", {}).get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return False
    condition = scheduled(pod)
    return condition.get("status") == "False" and condition.get("reason") == "Unschedulable"


def is_provisionable(pod: Object) -> bool:
    """Karpenter: the same, and no node is nominated for it while others are preempted there (utils/pod)."""
    return needs_a_node(pod) and not pod["status"].get("nominatedNodeName")


def scheduled(pod: Object) -> Object:
    """The condition PodScheduled; empty if there is none."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((dict(each) for each in conditions if each["type"] == "PodScheduled"), {})
