"""Deployments, ReplicaSets and pods as plain objects, for tests of those who decide about them."""

from __future__ import annotations

from typing import Any

DEPLOYMENTS = "deployments.apps"
REPLICA_SETS = "replicasets.apps"


def template(image: str = "web:1", app: str = "web", **annotations: str) -> dict[str, Any]:
    """The pod of a template."""
    about: dict[str, Any] = {"labels": {"app": app}}
    if annotations:
        about["annotations"] = {f"pumice.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": about, "spec": {"containers": [{"name": "main", "image": image}]}}


def deployment(name: str = "d", replicas: int = 3, image: str = "web:1", **spec: Any) -> dict[str, Any]:
    """A Deployment as the server keeps it: with its defaults."""
    whole = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(image),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        **spec,
    }
    about = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": 1}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": whole, "status": {}}


def replica_set(
    name: str = "s",
    replicas: int = 3,
    image: str = "web:1",
    *,
    available: int = 0,
    there: int | None = None,
    age: int = 0,
) -> dict[str, Any]:
    """A ReplicaSet of an image, and what it says of its pods."""
    labels = {"app": "web", "pod-template-hash": name}
    whole = template(image)
    whole["metadata"]["labels"] = labels
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "generation": 1,
            "creationTimestamp": f"2024-05-01T00:{59 - age:02}:00Z",
            "annotations": {"deployment.kubernetes.io/revision": str(60 - age)},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": whole},
        "status": {
            "replicas": replicas if there is None else there,
            "readyReplicas": available,
            "availableReplicas": available,
        },
    }


def pod(
    name: str,
    *,
    node: str = "n",
    phase: str = "Running",
    ready: bool = True,
    since: str = "2024-05-01T00:00:00Z",
    created: str = "2024-05-01T00:00:00Z",
    labels: dict[str, str] | None = None,
    **annotations: str,
) -> dict[str, Any]:
    """A pod that runs, or not yet."""
    ready_now = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    about: dict[str, Any] = {"name": name, "namespace": "default", "creationTimestamp": created}
    about["labels"] = {"app": "web"} if labels is None else labels
    about["annotations"] = annotations
    spec = {"nodeName": node} if node else {}
    return {"metadata": about, "spec": spec, "status": {"phase": phase, "conditions": [ready_now]}}
