"""A day with lightkube: argument 1 is the name of the job to make; see ../test_clients.py."""

from __future__ import annotations

import json
import sys

from lightkube import Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

Job = create_namespaced_resource("batch.volcano.sh", "v1alpha1", "Job", "jobs")


def main(name: str, raw: dict) -> dict:
    """What was seen at each step."""
    client = Client()
    made = client.create(Job(raw), namespace="default")
    listed = [found.metadata.name for found in client.list(Job, namespace="default")]
    phases: list[str] = []
    for _, found in client.watch(Job, namespace="default", resource_version=made.metadata.resourceVersion):
        if found.metadata.name == name:
            phases.append(((found.status or {}).get("state") or {}).get("phase", ""))
            if phases[-1] == "Completed":
                break
    change = {"metadata": {"labels": {"patched": "yes"}}}
    patched = client.patch(Job, name, change, namespace="default", patch_type=PatchType.MERGE)
    log = "".join(client.log(f"{name}-main-0", namespace="default"))
    client.delete(Job, name, namespace="default")
    left = list(client.list(Job, namespace="default", fields={"metadata.name": name}))
    return {"listed": listed, "phases": phases, "labels": patched.metadata.labels, "log": log, "left": len(left)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.load(sys.stdin))))
