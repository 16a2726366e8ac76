"""Objects that a custom resource's schema lets through, for hypothesis: made from the schema itself."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kubesim.kinds import custom_resources
from kubesim.kinds.crds import custom_resource_definitions
from kubesim.registry.registry import Object, Resource
from pumice import crds
from tests.kubesim.kinds.strategy_writes import create

NAMES = ("root", "default", "a", "b", "c", "root/a", "a/b", "no such", "", "é/\x00", "x" * 300)
QUANTITIES = ("0", "1", "2500m", "1Gi", ".5", "1e3", "1e999", "9" * 30, "+4", "1E")
DURATIONS = ("0", "5m", "1h30m", "0.5s")

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(NAMES),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(("name", "value", "cpu", "")), below, max_size=3)
    ),
    max_leaves=6,
)
containers = st.fixed_dictionaries(
    {}, optional={"resources": anything, "restartPolicy": anything, "name": st.sampled_from(NAMES)}
)
pod_specs = anything.filter(lambda found: isinstance(found, dict)) | st.fixed_dictionaries(
    {"containers": st.lists(containers, max_size=2)}, optional={"overhead": anything, "resources": anything}
)
entries = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(NAMES),
            "parameters": st.lists(
                st.fixed_dictionaries(
                    {"name": st.sampled_from(("weight", "deserved", "guarantee", "x")), "value": anything}
                ),
                max_size=2,
            ),
            "hierarchy": anything | st.lists(entries, max_size=2),
        },
    )
)


def resources() -> dict[str, Resource]:
    """What is served of our own kinds."""
    made = (create(custom_resource_definitions(), definition) for definition in crds.definitions())
    return {resource.qualified: resource for one in made for resource, _ in custom_resources.resources(one)}


def schema_of(qualified: str) -> dict[str, Any]:
    found = next(one for one in crds.definitions() if one["metadata"]["name"] == qualified)
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def values(schema: dict[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """Values that fit a schema, or nearly: what does not is to be filtered out by the schema itself."""
    if name == "hierarchy" and "properties" not in schema.get("items", {}):
        return st.lists(entries, max_size=2)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 10**12) | st.sampled_from(QUANTITIES)
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        return pod_specs if schema.get("type") == "object" else anything
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            keys = st.sampled_from(("cpu", "memory", "nvidia.com/gpu", "pods", "", "env"))
            return st.dictionaries(keys, values(schema["additionalProperties"]), max_size=2)
        case "object":
            parts = schema.get("properties", {})
            needed = {key: values(part, key) for key, part in parts.items() if key in schema.get("required", ())}
            return st.fixed_dictionaries(
                needed, optional={k: values(p, k) for k, p in parts.items() if k not in needed}
            )
        case "array":
            return st.lists(values(schema["items"], name), max_size=3)
        case "integer":
            return st.integers(schema.get("minimum", -5), min(schema.get("maximum", 9), 2**31 - 1)) | st.just(2**31 - 1)
        case "number":
            return st.sampled_from((-1, 0.5, 1, 2.5, 1e300))
        case "boolean":
            return st.booleans()
    if "pattern" in schema:
        return st.sampled_from(DURATIONS)
    return st.sampled_from(NAMES)


def objects(resource: Resource) -> st.SearchStrategy[Object]:
    """Objects as they arrive at admission: pruned, with defaults, and valid."""
    spec = values(schema_of(resource.qualified)["properties"]["spec"])
    status = values(schema_of(resource.qualified)["properties"]["status"])
    texts = st.sampled_from(("true", "root/a", "a//b", "/", "1/2", "1/x", "", "{}", "bert", "root/a/b/c"))
    keys = st.sampled_from(
        (
            "volcano.sh/hierarchy",
            "volcano.sh/hierarchy-weights",
            "pumice.dev/protected",
            "volcano.sh/user",
            "pumice.dev/user-limits",
        )
    )
    about = st.fixed_dictionaries(
        {"name": st.sampled_from(("root", "default", "a", "b", "new"))},
        optional={
            "annotations": st.dictionaries(keys, texts, max_size=3),
            "deletionTimestamp": st.just("2024-01-01T00:00:00Z"),
            "generateName": st.just("new-"),
        },
    )
    if resource.namespaced:
        about = about.map(lambda found: {**found, "namespace": "ns"})
    head = {"apiVersion": st.just(resource.api_version), "kind": st.just(resource.kind), "metadata": about}
    made = st.fixed_dictionaries(head, optional={"spec": spec, "status": status})
    return made.map(lambda found: _arrived(resource, found)).filter(
        lambda found: not list(resource.schema.validate(found))
    )


def _arrived(resource: Resource, found: Object) -> Object:
    resource.schema.prune(found)
    resource.schema.default(found)
    return found
