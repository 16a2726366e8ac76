"""Variables of containers: sources, references, what is missing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from pumice.agent.environment import MissingError, Referenced, container_environment, expand

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"team": "blue"}},
    "spec": {"nodeName": "here", "containers": [{"name": "main"}]},
}
REFERENCED = Referenced(
    {"c": {"data": {"A": "1", "B": "2"}}, "absent": None},
    {"s": {"data": {"K": b64encode(b"secret").decode()}}, "bytes": {"data": {"K": b64encode(b"\xff").decode()}}},
    {"cpu": "8", "ephemeral-storage": "2Gi"},
)


def variables(container: dict[str, Any], devices: list[str] | None = None) -> dict[str, str]:
    return container_environment(POD, {"name": "main", **container}, REFERENCED, devices or [], "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("$(A) $(B)", "1 $(B)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("cost: $5", "cost: $5"), ("$(A", "$(A")],
)
def test_references_are_replaced_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


def test_every_source() -> None:
    found = variables(
        {
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
            "env": [
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "B"}}},
                {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "DISK", "valueFrom": {"resourceFieldRef": {"resource": "limits.ephemeral-storage"}}},
                {"name": "ASKED", "valueFrom": {"resourceFieldRef": {"resource": "requests.ephemeral-storage"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "t", "key": "x", "optional": True}}},
                {"name": "ALL", "value": "$(C_A)$(K)"},
                {"name": "CUDA_VISIBLE_DEVICES", "value": "7"},
            ],
        },
        ["GPU-1", "GPU-2"],
    )
    wanted = {"C_A": "1", "C_B": "2", "K": "secret", "B": "2", "TEAM": "blue", "IP": "10.0.0.1", "ALL": "1secret"}
    wanted |= {"CPU": "2", "MIB": "1024", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "PUMICE_POD_UID": "u"}
    wanted |= {"DISK": str(2 << 30), "ASKED": "0"}  # as much as the node has, because there is no limit
    assert wanted.items() <= found.items()
    assert "NONE" not in found


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"envFrom": [{"configMapRef": {"name": "absent"}}]}, 'configmap "absent" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other"}}}]},
            "couldn't find key other in secret n/s",
        ),
        ({"envFrom": [{"secretRef": {"name": "bytes"}}]}, 'key K in secret "bytes" is not text'),
        (
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "bytes", "key": "K"}}}]},
            'key K in secret "bytes" is not text',
        ),
    ],
)
def test_what_is_missing_is_named(container: dict[str, Any], words: str) -> None:
    with pytest.raises(MissingError, match=words):
        variables(container)
