from __future__ import annotations

import pytest

from kubebase.field_error import FieldError
from kubesim.identity import KUBESIM
from kubesim.kubelet.node_template import (
    fill_in_node,
    internal_address,
    make_nodes,
    node_number,
    parse_capacity,
    parse_nodes,
    read_nodes,
)

NOW = "2024-05-01T12:00:00Z"


def test_capacity():
    assert parse_capacity("cpu=32, memory=256Gi,nvidia.com/gpu=8") == {
        "cpu": "32",
        "memory": "256Gi",
        "nvidia.com/gpu": "8",
        "pods": "110",
    }
    assert parse_capacity("cpu=1,memory=1Gi,pods=5")["pods"] == "5"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cpu=32", "--node-capacity: memory is missing"),
        ("cpu", "--node-capacity: 'cpu' is not NAME=AMOUNT; write for example cpu=32,memory=256Gi"),
        ("cpu=1,cpu=2,memory=1Gi", "cpu is given twice"),
        ("cpu=1,memory=4GB", "--node-capacity.memory: '4GB' is not a quantity; write 4G (powers of 1000)"),
        ("cpu=-1,memory=4G", "is negative"),
    ],
)
def test_capacity_that_cannot_be_read(text, complaint):
    with pytest.raises(FieldError) as refused:
        parse_capacity(text)
    assert complaint in str(refused.value)


def test_names_do_not_change_with_the_number_of_nodes():
    few, many = make_nodes(3, {}), make_nodes(1200, {})
    assert [n["metadata"]["name"] for n in few] == ["node-000", "node-001", "node-002"]
    assert many[:3] == few
    assert many[-1]["metadata"]["name"] == "node-1199"


def test_a_node_is_completed_and_says_its_number():
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    fill_in_node(node, 258, NOW, {}, KUBESIM)
    assert node["spec"]["podCIDR"] == "10.1.2.0/24"  # 258 = 1 * 256 + 2
    assert node_number(node) == 258
    assert internal_address(node) == "172.16.1.3"  # 258 + 1 = 1 * 256 + 3
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    again = {**node}
    fill_in_node(again, 999, NOW, {"cpu": "1"}, KUBESIM)
    assert again == node


def test_fill_in_node_keeps_fields_already_set():
    node = {
        "metadata": {"name": "n", "labels": {"kubernetes.io/arch": "arm64"}},
        "spec": {"podCIDR": "192.168.0.0/16"},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "7"},
            "allocatable": {"cpu": "3", "memory": "7Gi"},
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
        },
    }
    fill_in_node(node, 0, NOW, {}, KUBESIM)
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert node["status"]["allocatable"] == {"cpu": "3", "memory": "7Gi", "pods": "7"}
    assert internal_address(node) == "1.2.3.4"
    assert node_number(node) is None


def test_a_file_of_nodes():
    listed = {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "b"}}]}
    found = parse_nodes([{"kind": "Node", "metadata": {"name": "a"}}, None, listed], "nodes.yaml")
    assert [n["metadata"]["name"] for n in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"kind": "Pod"}, "nodes.yaml, document 1: Pod given, but only Nodes are read"),
        ("text", "nodes.yaml, document 1: str given"),
        ({"kind": "Node", "metadata": {}}, "nodes.yaml, document 1: metadata.name: a node needs a name"),
        (
            {"kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": {"cpu": "many"}}},
            "nodes.yaml, document 1: status.capacity.cpu: 'many' is not a quantity",
        ),
    ],
)
def test_a_file_of_something_else(document, complaint):
    with pytest.raises(FieldError) as refused:
        parse_nodes([document], "nodes.yaml")
    assert complaint in str(refused.value)


def test_a_file_is_read_and_a_name_that_comes_twice_refused(tmp_path):
    path = tmp_path / "nodes.yaml"
    path.write_text("kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: b}\n")
    assert [n["metadata"]["name"] for n in read_nodes(path)] == ["a", "b"]
    path.write_text("kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: a}\n")
    with pytest.raises(FieldError, match="Node/a: given twice"):
        read_nodes(path)
    path.write_text("kind: [")
    with pytest.raises(FieldError, match="is not YAML"):
        read_nodes(path)
