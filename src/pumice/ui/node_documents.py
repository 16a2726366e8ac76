"""The documents of nodes: the map of all nodes, and one node with its pods."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kubebase.resource_vector import Vector, add, dominant_share
from pumice.ui.picture import ClusterPicture
from pumice.ui.seen_objects import PodSeen
from pumice.ui.values import Document, amounts, time_text

PODS_LISTED = 500


def node_row(name: str, picture: ClusterPicture, schedulers: Collection[str]) -> Document:
    """A node as a square of the map."""
    node = picture.nodes[name]
    used: Vector = ()
    ours = others = 0
    for pod in picture.pods_on(name):
        used = add(used, pod.request)
        if pod.scheduler in schedulers:
            ours += 1
        else:
            others += 1
    return {
        "name": name,
        "state": "Ready" if node.ready else "NotReady",
        "schedulable": node.schedulable,
        "offered": amounts(node.offered, picture.names),
        "used": amounts(used, picture.names),
        "share": round(dominant_share(used, node.offered), 6),
        "tasks": ours,
        "others": others,
    }


def node_document(
    name: str, picture: ClusterPicture, schedulers: Collection[str], readable: Callable[[str], bool]
) -> Document:
    """A node with its pods, those of namespaces that the viewer may read."""
    node = picture.nodes[name]
    pods = sorted(picture.pods_on(name), key=lambda pod: (pod.namespace, pod.name))
    shown = [pod for pod in pods if readable(pod.namespace)]
    return {
        "node": node_row(name, picture, schedulers),
        "labels": node.labels,
        "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in node.taints],
        "created": time_text(node.created),
        "pods": [_pod_row(pod, picture) for pod in shown[:PODS_LISTED]],
        "podsTotal": len(pods),
        "podsHidden": len(pods) - len(shown),
    }


def _pod_row(pod: PodSeen, picture: ClusterPicture) -> Document:
    group = picture.groups.get(pod.group)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "job": picture.job_name(pod.group) if group is not None else None,
        "queue": group.queue if group is not None else None,
        "user": pod.user or (group.user if group is not None else "") or None,
        "state": pod.state,
        "request": amounts(pod.request, picture.names),
        "started": time_text(pod.started),
        "scheduler": pod.scheduler,
    }
