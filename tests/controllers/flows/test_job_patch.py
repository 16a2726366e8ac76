"""The patch of a flow on the spec of a template, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pumice.controllers.flows.job_patch import patched_spec

TEMPLATE: dict[str, Any] = {
    "queue": "q",
    "minAvailable": 2,
    "plugins": {"svc": [], "env": []},
    "policies": [{"event": "PodFailed", "action": "RestartJob"}],
    "volumes": [{"mountPath": "/data", "volumeClaimName": "one"}],
    "tasks": [
        {
            "name": "a",
            "replicas": 1,
            "template": {
                "spec": {
                    "nodeSelector": {"zone": "x"},
                    "affinity": {"nodeAffinity": {}},
                    "tolerations": [{"key": "gpu", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": "c",
                            "image": "old",
                            "args": ["1", "2"],
                            "env": [{"name": "A", "value": "1"}],
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        }
                    ],
                }
            },
        },
        {"name": "b", "replicas": 2},
    ],
}


def pod(patch: dict[str, Any]) -> dict[str, Any]:
    found = patched_spec(TEMPLATE, {"tasks": [{"name": "a", "template": {"spec": patch}}]})
    spec: dict[str, Any] = found["tasks"][0]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("patch", "field", "value"),
    [
        ({"queue": "other"}, "queue", "other"),
        ({"ttlSecondsAfterFinished": 5}, "ttlSecondsAfterFinished", 5),
        ({"plugins": {"svc": ["-x"], "ssh": []}}, "plugins", {"svc": ["-x"], "env": [], "ssh": []}),
        ({"policies": []}, "policies", []),
        (
            {"volumes": [{"mountPath": "/data", "volumeClaimName": "two"}, {"mountPath": "/more"}]},
            "volumes",
            [{"mountPath": "/data", "volumeClaimName": "two"}, {"mountPath": "/more"}],
        ),
        ({"tasks": [{"name": "b", "replicas": 5}]}, "tasks", [TEMPLATE["tasks"][0], {"name": "b", "replicas": 5}]),
        ({"tasks": [{"name": "c"}]}, "tasks", [*TEMPLATE["tasks"], {"name": "c"}]),
    ],
)
def test_fields_of_jobs(patch: dict[str, Any], field: str, value: object) -> None:
    before = copy.deepcopy(TEMPLATE)
    found = patched_spec(TEMPLATE, patch)
    assert found[field] == value
    assert {name: part for name, part in found.items() if name != field} == {
        name: part for name, part in TEMPLATE.items() if name != field
    }
    assert before == TEMPLATE


@pytest.mark.parametrize(
    ("patch", "field", "value"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "nodeSelector", {"zone": "x", "disk": "ssd"}),
        ({"affinity": {"podAffinity": {}}}, "affinity", {"podAffinity": {}}),
        (
            {"tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "spot"}]},
            "tolerations",
            [{"key": "gpu", "effect": "NoSchedule", "operator": "Exists"}, {"key": "spot"}],
        ),
    ],
)
def test_fields_of_pods(patch: dict[str, Any], field: str, value: object) -> None:
    assert pod(patch)[field] == value


def test_fields_of_containers() -> None:
    change = {
        "name": "c",
        "image": "new",
        "args": ["3"],
        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
        "resources": {"requests": {"cpu": "2"}},
    }
    container, sidecar = pod({"containers": [change, {"name": "sidecar"}]})["containers"]
    assert container == {
        "name": "c",
        "image": "new",
        "args": ["3"],
        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    }
    assert sidecar == {"name": "sidecar"}
