"""What an agent keeps of pods: all of it while they may run, next to nothing once they have ended."""

from __future__ import annotations

import gc
import json
import tracemalloc

import pytest

from pumice.agent.node_pods import EndedPod, node_pods

MOST_BYTES = 1024
ENVIRONMENT = [{"name": f"VARIABLE_{number}", "value": "x" * 50} for number in range(50)]


def pod(number: int, phase: str, **metadata: str) -> bytes:
    about = {"name": f"many-1-main-{number}", "namespace": "default", "uid": f"{number:036d}", **metadata}
    spec = {"containers": [{"name": "main", "command": ["true"], "env": ENVIRONMENT}]}
    return json.dumps({"metadata": about, "spec": spec, "status": {"phase": phase}}).encode()


@pytest.mark.parametrize(
    ("phase", "metadata", "kept"),
    [
        ("Succeeded", {}, EndedPod("default", "many-1-main-0", deleting=False)),
        ("Failed", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, EndedPod("default", "many-1-main-0", deleting=True)),
    ],
)
def test_of_a_pod_that_has_ended_its_name_is_kept(phase: str, metadata: dict[str, str], kept: EndedPod) -> None:
    assert node_pods().decode(pod(0, phase, **metadata)) == kept


@pytest.mark.parametrize("phase", ["Pending", "Running", ""])
def test_other_pods_are_kept_whole(phase: str) -> None:
    found = node_pods().decode(pod(0, phase))
    assert isinstance(found, dict)
    assert found["spec"]["containers"][0]["env"] == ENVIRONMENT
    assert found["kind"] == "Pod"


def test_a_thousand_pods_that_have_ended_take_little_memory() -> None:
    resource, contents = node_pods(), [pod(number, "Succeeded") for number in range(1000)]
    resource.decode(contents[0])
    gc.collect()
    tracemalloc.start()
    try:
        kept = [resource.decode(content) for content in contents]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < MOST_BYTES * len(kept)
