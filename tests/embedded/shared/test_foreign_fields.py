"""Fields that reach beyond a namespace are found in any depth; what others see of an object has none of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesim.api.access import Principal
from pumice.embedded.shared.foreign_fields import foreign_fields
from pumice.embedded.shared.reduced_objects import REDUCED, reduced, show_to

POD = {"containers": [{"name": "c"}]}


def fields(found: dict[str, Any], resource: str = "pods") -> list[str]:
    return [field for field, _ in foreign_fields(resource, found, "anna", "anna")]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({**POD, "nodeName": "here"}, "spec.nodeName"),
        ({**POD, "priorityClassName": "system-cluster-critical"}, "spec.priorityClassName"),
        ({**POD, "terminationGracePeriodSeconds": 10**9}, "spec.terminationGracePeriodSeconds"),
        ({"a": [{"topologyKey": "t", "namespaces": ["bela"]}]}, "spec.a[0].namespaces"),
        ({"a": [{"topologyKey": "t", "namespaces": ["anna", "bela"]}]}, "spec.a[0].namespaces"),
        ({"a": [{"topologyKey": "t", "namespaceSelector": {}}]}, "spec.a[0].namespaceSelector"),
        ({"template": {"metadata": {"annotations": {"volcano.sh/user": "bela"}}}}, "volcano.sh/user"),
        ({"template": {"metadata": {"labels": {"volcano.sh/preemptable": "false"}}}}, "volcano.sh/preemptable"),
        ({"template": {"metadata": {"annotations": {"volcano.sh/preemptable": "F"}}}}, "volcano.sh/preemptable"),
        ({"template": {"metadata": {"annotations": {"pumice.dev/ports": "{}"}}}}, "pumice.dev/ports"),
        ({"flows": [{"patch": {"spec": {"tasks": [{"template": {"spec": {**POD, "nodeName": "x"}}}]}}}]}, "nodeName"),
    ],
)
def test_a_field_is_found_in_any_depth(spec: dict[str, Any], field: str) -> None:
    found = fields({"metadata": {"name": "x"}, "spec": spec})
    assert len(found) == 1
    assert field in found[0]


def test_what_stays_in_the_namespace_is_allowed() -> None:
    spec = {
        **POD,
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 600,
        "a": [{"topologyKey": "t", "namespaces": ["anna"]}, {"namespaces": ["bela"]}],
        "template": {"metadata": {"annotations": {"volcano.sh/user": "anna", "volcano.sh/preemptable": "true"}}},
    }
    assert fields({"spec": spec}) == []
    assert fields({"target": {"kind": "Job"}}, "commands.bus.volcano.sh") == []
    assert fields({"target": {"kind": "Queue"}}, "commands.bus.volcano.sh") == ["target.kind"]
    assert fields({"target": "Job"}, "commands.bus.volcano.sh") == ["target.kind"]


@pytest.mark.parametrize("resource", sorted(REDUCED))
def test_a_reduced_object_has_nothing_that_is_not_listed(resource: str) -> None:
    """Whatever the object is: a field that nobody thought of is hidden, not shown."""
    inner = {"name": "n", "env": [{"value": "SECRET"}], "command": ["SECRET"], "args": ["SECRET"], "image": "SECRET"}
    found = {
        "apiVersion": "v1",
        "kind": "K",
        "data": "SECRET",
        "metadata": {
            "name": "n",
            "namespace": "anna",
            "uid": "u",
            "labels": {"mine": "SECRET"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "SECRET", "volcano.sh/user": "anna"},
            "managedFields": ["SECRET"],
        },
        "spec": {
            "containers": [inner],
            "initContainers": [inner],
            "volumes": ["SECRET"],
            "queue": "q",
            "tasks": [{"name": "t", "template": {"metadata": {"x": "SECRET"}, "spec": {"containers": [inner]}}}],
            "plugins": {"ssh": ["SECRET"]},
        },
        "status": {
            "phase": "Running",
            "message": "SECRET",
            "conditions": [{"type": "Ready", "message": "SECRET"}],
            "containerStatuses": [{"name": "n", "state": {"terminated": {"exitCode": 1, "message": "SECRET"}}}],
        },
    }
    if resource == "poddisruptionbudgets.policy":
        found["spec"] = found["status"] = {}
    shown = reduced(resource, found)
    assert "SECRET" not in json.dumps(shown)
    assert shown["metadata"]["annotations"] == {"volcano.sh/user": "anna"}


def test_ones_own_objects_are_shown_whole() -> None:
    value = json.dumps({"metadata": {"name": "n"}, "spec": {"volumes": ["SECRET"]}}).encode()
    show = show_to(Principal("anna", 1001, namespace="anna"))
    assert show("pods/anna/n", value) == value
    for key in ("pods/bela/n", "pods/ann/n", "pods/annab/n", "pods/bela/anna"):
        assert b"SECRET" not in show(key, value)
    assert b"SECRET" not in show_to(Principal("system:viewer"))("pods/anna/n", value)
