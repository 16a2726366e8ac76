"""The OpenAPI documents: complete, consistent in themselves, and with what kubectl looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubesim import kinds, openapi
from kubesim.kinds import custom_resources
from kubesim.kinds.crds import custom_resource_definitions
from kubesim.openapi.components import META
from kubesim.registry.registry import Object, ResourceRegistry
from pumice import crds
from tests.kubesim.kinds.strategy_writes import create, update

METHODS = {"get", "put", "post", "delete", "patch"}


def stocked() -> ResourceRegistry:
    found = ResourceRegistry(kinds.resources())
    for definition in crds.definitions():
        custom_resources.install(found, create(custom_resource_definitions(), definition))
    return found


CATALOGUE = stocked()
VERSIONS = sorted({(resource.group, resource.version) for resource in CATALOGUE})


def document(group: str, version: str) -> Object:
    found = openapi.document(CATALOGUE, group, version)
    assert found is not None
    return found


def operations(paths: Object) -> Iterator[tuple[str, str, Object]]:
    for path, item in paths.items():
        for method in METHODS & item.keys():
            yield path, method, item[method]


def references(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for part in found.values():
            yield from references(part)
    elif isinstance(found, list):
        for part in found:
            yield from references(part)


def test_the_index_names_every_version() -> None:
    found = openapi.index(CATALOGUE)["paths"]
    assert set(found) == {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in VERSIONS}
    for place, entry in found.items():
        assert re.fullmatch(rf"/openapi/v3/{place}\?hash=[0-9A-F]+", entry["serverRelativeURL"])
    assert openapi.document(CATALOGUE, "autoscaling", "v1") is None


def test_the_address_of_a_document_changes_with_what_it_says() -> None:
    before = openapi.index(stocked())["paths"]
    assert before == openapi.index(CATALOGUE)["paths"]
    registry = stocked()
    definition = next(found for found in crds.definitions() if found["metadata"]["name"].startswith("queues"))
    old = create(custom_resource_definitions(), definition)
    versions = msgspec.json.decode(msgspec.json.encode(definition["spec"]["versions"]))
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] = {"type": "string"}
    custom_resources.install(registry, update(custom_resource_definitions(), old, {"spec": {"versions": versions}}))
    after = openapi.index(registry)["paths"]
    assert {place for place in before if before[place] != after[place]} == {"apis/scheduling.volcano.sh/v1beta1"}


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_every_reference_leads_somewhere(group: str, version: str) -> None:
    found = document(group, version)
    known = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert set(references(found)) <= known
    msgspec.json.encode(found)


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_operations(group: str, version: str) -> None:
    found = list(operations(document(group, version)["paths"]))
    names = [operation["operationId"] for _, _, operation in found]
    assert len(set(names)) == len(names)
    for path, method, operation in found:
        item = document(group, version)["paths"][path]
        declared = {parameter["name"] for parameter in item.get("parameters", ()) if parameter["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path))
        assert operation["responses"]["default"]
        assert (method in {"put", "post", "patch"}) == bool(operation.get("requestBody", {}).get("required"))


@pytest.mark.parametrize("resource", list(CATALOGUE), ids=lambda resource: f"{resource.qualified}-{resource.version}")
def test_openapi_has_schema_and_patch_parameters_for_kubectl(resource: Any) -> None:
    """How kubectl finds a kind's schema, whether it may leave validation to the server, and how it merges."""
    found = document(resource.group, resource.version)
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = [
        schema
        for schema in found["components"]["schemas"].values()
        if kind in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert len(schemas) == 1
    assert {"apiVersion", "kind", "metadata"} <= schemas[0]["properties"].keys()
    patches = [
        operation
        for path, method, operation in operations(found["paths"])
        if method == "patch" and operation["x-kubernetes-group-version-kind"] == kind
    ]
    assert bool(patches) == ("patch" in resource.verbs)
    for patch in patches:
        assert {"dryRun", "fieldManager", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
        strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
        assert strategic is not resource.custom


def test_merge_keys_are_published() -> None:
    pod = document("", "v1")["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
    containers = pod["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"


def test_values_that_are_numbers_or_texts() -> None:
    quota = document("", "v1")["components"]["schemas"]["io.k8s.api.core.v1.ResourceQuota"]
    amount = quota["properties"]["spec"]["properties"]["hard"]["additionalProperties"]
    assert amount == {"x-kubernetes-int-or-string": True, "oneOf": [{"type": "string"}, {"type": "number"}]}


def test_descriptions_reach_those_who_ask() -> None:
    queue = document("scheduling.volcano.sh", "v1beta1")["components"]["schemas"]["sh.volcano.scheduling.v1beta1.Queue"]
    assert queue["properties"]["spec"]["properties"]["weight"]["description"]
    assert queue["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}]


def test_the_enforced_schema_is_left_alone() -> None:
    queues = CATALOGUE.find("scheduling.volcano.sh", "v1beta1", "queues")
    assert queues is not None
    before = msgspec.json.encode(queues.schema.openapi)
    document("scheduling.volcano.sh", "v1beta1")
    openapi.swagger(CATALOGUE)
    assert msgspec.json.encode(queues.schema.openapi) == before


def test_swagger() -> None:
    found = openapi.swagger(CATALOGUE)
    known = {f"#/definitions/{name}" for name in found["definitions"]}
    assert set(references(found)) <= known
    assert set(found["paths"]) == {path for place in VERSIONS for path in document(*place)["paths"]}
    text = msgspec.json.encode(found)
    for word in (b'"oneOf"', b'"anyOf"', b'"requestBody"', b"components/schemas"):
        assert word not in text
    for _, method, operation in operations(found["paths"]):
        bodies = [parameter for parameter in operation["parameters"] if parameter["in"] == "body"]
        assert len(bodies) == (method != "get")
