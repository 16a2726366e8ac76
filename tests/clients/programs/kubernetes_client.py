"""A day with the official Python client: argument 1 is the name of the job to make; see ../test_clients.py."""

from __future__ import annotations

import json
import sys

from kubernetes import client, config, watch

GROUP = ("batch.volcano.sh", "v1alpha1", "default", "jobs")


def main(name: str, job: dict) -> dict:
    """What was seen at each step."""
    config.load_kube_config()
    custom, core = client.CustomObjectsApi(), client.CoreV1Api()
    made = custom.create_namespaced_custom_object(*GROUP, job)
    listed = custom.list_namespaced_custom_object(*GROUP)
    phases: list[str] = []
    watching = watch.Watch()
    since = made["metadata"]["resourceVersion"]
    for event in watching.stream(custom.list_namespaced_custom_object, *GROUP, resource_version=since):
        found = event["object"]
        if found["metadata"]["name"] == name:
            phases.append(found.get("status", {}).get("state", {}).get("phase", ""))
            if phases[-1] == "Completed":
                watching.stop()
    patched = custom.patch_namespaced_custom_object(*GROUP, name, {"metadata": {"labels": {"patched": "yes"}}})
    log = core.read_namespaced_pod_log(f"{name}-main-0", "default")
    custom.delete_namespaced_custom_object(*GROUP, name)
    left = custom.list_namespaced_custom_object(*GROUP, field_selector=f"metadata.name={name}")
    return {
        "listed": [found["metadata"]["name"] for found in listed["items"]],
        "phases": phases,
        "labels": patched["metadata"]["labels"],
        "log": log,
        "left": len(left["items"]),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.load(sys.stdin))))
