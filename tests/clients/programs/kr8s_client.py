"""A day with kr8s: argument 1 is the name of the job to make; see ../test_clients.py."""

from __future__ import annotations

import json
import sys

import kr8s
from kr8s.objects import Pod, new_class

Job = new_class("Job", "batch.volcano.sh/v1alpha1", namespaced=True)


def main(name: str, raw: dict) -> dict:
    """What was seen at each step."""
    job = Job(raw)
    job.create()
    listed = [found.name for found in kr8s.get(Job, namespace="default")]
    phases: list[str] = []
    for _, found in kr8s.api().watch(Job, namespace="default"):
        if found.name == name:
            phases.append(found.raw.get("status", {}).get("state", {}).get("phase", ""))
            if phases[-1] == "Completed":
                break
    job.patch({"metadata": {"labels": {"patched": "yes"}}})
    labels = dict(job.labels)
    log = "".join(f"{line}\n" for line in Pod.get(f"{name}-main-0", namespace="default").logs())
    job.delete()
    left = list(kr8s.get(Job, namespace="default", field_selector=f"metadata.name={name}"))
    return {"listed": listed, "phases": phases, "labels": labels, "log": log, "left": len(left)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.load(sys.stdin))))
