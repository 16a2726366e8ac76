"""The schema of a pod's spec: that it is structural, and where patches find the keys of its lists."""

from typing import Any

import pytest

from kubesim.kinds.nodes import node_openapi
from kubesim.kinds.pods.schema import pod_openapi
from kubesim.kinds.podspec import pod_spec_schema, pod_template_schema
from kubesim.schema import Schema


@pytest.mark.parametrize("custom", [False, True])
def test_structural(custom: bool) -> None:
    for openapi in (pod_openapi(custom=custom), node_openapi(custom=custom)):
        Schema(openapi)
    Schema({"type": "object", "properties": {"template": pod_template_schema(custom=custom)}})


@pytest.mark.parametrize(
    ("path", "key", "strategy"),
    [
        ("containers", "name", "merge"),
        ("initContainers", "name", "merge"),
        ("ephemeralContainers", "name", "merge"),
        ("volumes", "name", "merge,retainKeys"),
        ("imagePullSecrets", "name", "merge"),
        ("hostAliases", "ip", "merge"),
        ("schedulingGates", "name", "merge"),
        ("topologySpreadConstraints", "topologyKey", "merge"),
        ("containers.env", "name", "merge"),
        ("containers.ports", "containerPort", "merge"),
        ("containers.volumeMounts", "mountPath", "merge"),
        ("containers.volumeDevices", "devicePath", "merge"),
        ("tolerations", None, None),
        ("containers.command", None, None),
        ("readinessGates", None, None),
    ],
)
def test_keys_of_lists(path: str, key: str | None, strategy: str | None) -> None:
    found: Any = pod_spec_schema()
    for step in path.split("."):
        found = found.get("items", found)["properties"][step]
    assert found.get("x-kubernetes-patch-merge-key") == key
    assert found.get("x-kubernetes-patch-strategy") == strategy


def test_a_custom_resource_asks_for_containers_with_names() -> None:
    schema = Schema({"type": "object", "properties": {"template": pod_template_schema(custom=True)}})
    fields = {problem.field for problem in schema.validate({"template": {"spec": {}}})}
    assert fields == {"template.spec.containers"}
    unnamed: dict[str, Any] = {"template": {"spec": {"containers": [{"ports": [{"containerPort": 1}]}]}}}
    schema.default(unnamed)
    assert unnamed["template"]["spec"]["containers"] == [{"ports": [{"containerPort": 1, "protocol": "TCP"}]}]
    assert {problem.field for problem in schema.validate(unnamed)} == {"template.spec.containers[0].name"}
