"""Nodes, as a real kube-apiserver 1.36 answers."""

from typing import Any

import pytest

from kubesim.kinds import nodes
from kubesim.registry.registry import Object
from tests.kubesim.kinds.strategy_writes import create, named, rejection_message, update

RESOURCE = nodes.resource()


def _node(**fields: Any) -> Object:
    return create(RESOURCE, named("n", **fields))


def test_a_node_comes_with_its_status() -> None:
    node = _node(
        spec={"podCIDR": "10.0.0.0/24", "unschedulable": False},
        status={"capacity": {"cpu": "1000m", "memory": "1024Mi", "pods": 110}},
    )
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "110"}
    assert node["spec"] == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
    assert node["status"] == {"capacity": amounts, "allocatable": amounts}
    assert node["status"]["capacity"] is not node["status"]["allocatable"]


def test_a_node_about_which_nothing_is_said() -> None:
    node = _node()
    assert (node["spec"], node["status"]) == ({}, {})
    assert "generation" not in node["metadata"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"spec": {"taints": [{"key": "a", "effect": "x"}]}},
            'metadata.taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", '
            '"NoExecute"',
        ),
        ({"spec": {"taints": [{"key": "a"}]}}, "metadata.taints[0].effect: Required value"),
        (
            {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]}},
            'metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoExecute"}: taints must be unique by key and '
            "effect pair",
        ),
        (
            {"spec": {"podCIDR": "x"}},
            'spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        ),
        (
            {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
            'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each '
            "IP family",
        ),
        (
            {"status": {"capacity": {"cpu": -1}, "allocatable": {}}},
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"status": {"capacity": {"nvidia.com/gpu": "500m"}, "allocatable": {}}},
            'status.capacity.nvidia.com/gpu: Invalid value: "500m": must be an integer',
        ),
    ],
)
def test_refused(fields: Object, words: str) -> None:
    assert rejection_message(_node, **fields) == f'422 Node "n" is invalid: {words}'


@pytest.mark.parametrize(
    "fields",
    [
        {"status": {"capacity": {"foo": 1, "hugepages-2Mi": "3Mi"}}},
        {"status": {"capacity": {"cpu": 1}, "allocatable": {"cpu": 2}}},
        {"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}},
        {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.1.0/24"]}},
    ],
)
def test_accepted(fields: Object) -> None:
    _node(**fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"providerID": "q"},
            'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
        ),
        (
            {"podCIDR": None, "podCIDRs": None},
            'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        ),
        ({"externalID": "x"}, "spec.externalID: Forbidden: may not be updated"),
    ],
)
def test_changes_refused(change: Object, words: str) -> None:
    old = _node(spec={"podCIDR": "10.0.0.0/24", "providerID": "p"})
    assert rejection_message(update, RESOURCE, old, {"spec": change}) == f'422 Node "n" is invalid: {words}'


def test_cordoned() -> None:
    new = update(RESOURCE, _node(), {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}})
    assert new["spec"]["unschedulable"] is True
    assert "unschedulable" not in update(RESOURCE, new, {"spec": {"unschedulable": False}})["spec"]


def test_its_capacity_may_change_without_what_is_allocatable() -> None:
    old = _node(status={"capacity": {"cpu": 1}})
    new = update(RESOURCE, old, {"status": {"capacity": {"cpu": "2000m"}}}, sub="status")
    assert new["status"] == {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}}
