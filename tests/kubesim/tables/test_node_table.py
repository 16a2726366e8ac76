"""The columns of nodes: what a real kube-apiserver 1.36 shows of the same nodes."""

from typing import Any

import pytest

from kubesim.registry.registry import Object
from kubesim.tables import AGE, NAME
from kubesim.tables.nodes import columns, node_status, roles


def node(status: str | None = None, *, cordoned: bool = False, **fields: Any) -> Object:
    conditions = [{"type": "X", "status": "True"}] + ([{"type": "Ready", "status": status}] if status else [])
    spec = {"unschedulable": True} if cordoned else {}
    return {"metadata": {"name": "n", **fields}, "spec": spec, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (node("True"), "Ready"),
        (node("False"), "NotReady"),
        (node("Unknown"), "NotReady"),
        (node(), "Unknown"),
        (node("True", cordoned=True), "Ready,SchedulingDisabled"),
        (node("Unknown", cordoned=True), "NotReady,SchedulingDisabled"),
        (node(cordoned=True), "Unknown,SchedulingDisabled"),
    ],
)
def test_status(found: Object, text: str) -> None:
    assert node_status(found) == text


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, "<none>"),
        ({"node-role.kubernetes.io/worker": ""}, "worker"),
        (
            {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/a": "x", "kubernetes.io/role": "zz"},
            "a,control-plane,zz",
        ),
        ({"node-role.kubernetes.io/": "", "kubernetes.io/role": ""}, "<none>"),
    ],
)
def test_roles(labels: dict[str, str], text: str) -> None:
    assert roles(node(labels=labels)) == text


def test_a_row() -> None:
    found = node("True")
    found["status"] |= {
        "nodeInfo": {
            "kubeletVersion": "v1",
            "osImage": "Linux",
            "kernelVersion": "6",
            "containerRuntimeVersion": "containerd://2",
        },
        "addresses": [
            {"type": "Hostname", "address": "n"},
            {"type": "InternalIP", "address": "1.1.1.1"},
            {"type": "InternalIP", "address": "1.1.1.2"},
        ],
    }
    cells = [column.value(found) for column in columns(NAME, AGE)]
    assert cells == ["n", "Ready", "<none>", "<unknown>", "v1", "1.1.1.1", "<none>", "Linux", "6", "containerd://2"]


def test_a_node_about_which_nothing_is_said() -> None:
    cells = [column.value({"metadata": {"name": "n"}}) for column in columns(NAME, AGE)]
    assert cells[1:] == ["Unknown", "<none>", "<unknown>", "", "<none>", "<none>", *["<unknown>"] * 3]
