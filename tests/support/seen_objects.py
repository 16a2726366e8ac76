"""Objects of a cluster as the page keeps them, and changes of them, for tests of the picture and its documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pumice.kube.watch.change_queue import Change
from pumice.ui.picture import ClusterPicture

Document = dict[str, Any]


def queue(name: str, parent: str = "root", weight: int = 1, **more: Any) -> Document:
    """A Queue; ``status`` and fields of the spec by name."""
    status = more.pop("status", {})
    above = {} if name == "root" else {"parent": parent}
    return {"metadata": {"name": name}, "spec": {**above, "weight": weight, **more}, "status": status}


def group(name: str, queue: str, phase: str = "Running", *, user: str = "", namespace: str = "default") -> Document:
    """A PodGroup that a Job owns; the Job has the name without what follows the first dash."""
    about: Document = {"name": name, "namespace": namespace, "annotations": {"volcano.sh/user": user} if user else {}}
    about["ownerReferences"] = [{"kind": "Job", "name": name.partition("-")[0]}]
    about["creationTimestamp"] = "2026-11-16T19:00:00Z"
    return {"metadata": about, "spec": {"queue": queue, "minMember": 1}, "status": {"phase": phase}}


def pod(
    name: str, group: str, node: str = "", phase: str = "", *, namespace: str = "default", **request: str
) -> Document:
    """A pod of a PodGroup; without a request it asks for one cpu."""
    about = {"name": name, "namespace": namespace, "annotations": {"scheduling.k8s.io/group-name": group}}
    container = {"name": "main", "resources": {"requests": request or {"cpu": "1"}}}
    spec = {"nodeName": node, "schedulerName": "pumice", "containers": [container]}
    return {"metadata": about, "spec": spec, "status": {"phase": phase or ("Running" if node else "Pending")}}


def node(name: str, cpu: int = 8, *, ready: bool = True, cordoned: bool = False) -> Document:
    """A node."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    offered = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": offered, "conditions": conditions},
    }


class SeenCluster:
    """A picture, and the objects that it has been shown."""

    def __init__(self) -> None:
        self.picture = ClusterPicture()
        seen = self.picture.seen
        self._resources = {
            "Queue": seen.queues,
            "PodGroup": seen.groups,
            "Pod": seen.pods,
            "Node": seen.nodes,
        }
        self.objects: dict[tuple[str, str], Document] = {}

    def put(self, kind: str, *documents: Document) -> None:
        """Show new or changed objects."""
        for document in documents:
            self._change(kind, _key(document), document)

    def drop(self, kind: str, key: str) -> None:
        """Delete an object."""
        self._change(kind, key, None)

    def of(self, kind: str) -> Iterable[Document]:
        """The objects of a kind."""
        return [document for (found, _), document in self.objects.items() if found == kind]

    def _change(self, kind: str, key: str, document: Document | None) -> None:
        resource: Any = self._resources[kind]
        old = self.objects.pop((kind, key), None)
        if document is not None:
            self.objects[kind, key] = document
        before = resource.decode(json.dumps(old).encode()) if old is not None else None
        after = resource.decode(json.dumps(document).encode()) if document is not None else None
        self.picture.apply([Change(resource.name, key, "uid", "1", before, after)])


def _key(document: Document) -> str:
    about = document["metadata"]
    return f"{about['namespace']}/{about['name']}" if "namespace" in about else str(about["name"])
