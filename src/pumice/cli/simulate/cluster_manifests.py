"""``pumice simulate --from-cluster``: nodes and queues of the running cluster, as a file of manifests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pumice.cli.cluster.cluster_command import Cluster, api_errors_as_messages
from pumice.kube.resources import NODES, PRIORITY_CLASSES, QUEUES

_WRITTEN_BY_SERVERS = ("managedFields", "resourceVersion", "uid", "generation", "ownerReferences", "finalizers")


@contextmanager
def cluster_manifests() -> Iterator[tuple[str, str]]:
    """The path of a file with the manifests, which is removed afterwards, and what reports call it."""
    with closing(Cluster(None, "", "", everywhere=False)) as cluster, api_errors_as_messages():
        name = f"the cluster at {cluster.client.access.server}"
        found = [
            _manifest(document, resource.api_version, resource.kind)
            for resource in (NODES, QUEUES, PRIORITY_CLASSES)
            for document in cluster.client.list(resource.path()).items
        ]
    with tempfile.TemporaryDirectory(prefix="pumice-simulate-") as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": found}, sort_keys=True), encoding="utf-8")
        yield str(path), name


def _manifest(document: dict[str, Any], version: str, kind: str) -> dict[str, Any]:
    """An object without what only its server needs; of its status what a scheduler reads."""
    about = {name: value for name, value in document["metadata"].items() if name not in _WRITTEN_BY_SERVERS}
    kept = {"apiVersion": version, "kind": kind, **document, "metadata": about}
    status = document.get("status") or {}
    kept.pop("status", None)
    if kind == "Node":
        kept["status"] = {name: status[name] for name in ("allocatable", "capacity") if name in status}
        # The times of conditions change with every heartbeat, and the hash of the input should not.
        conditions = [{name: one.get(name) for name in ("type", "status")} for one in status.get("conditions") or ()]
        kept["status"] |= {"conditions": conditions} if conditions else {}
    elif status.get("state"):
        kept["status"] = {"state": status["state"]}
    return kept
