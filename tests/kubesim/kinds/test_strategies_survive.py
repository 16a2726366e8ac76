"""No JSON whatever crashes the strategies of pods and nodes: an object, or an ApiError that says why not."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.kinds import nodes, pods
from kubesim.registry.registry import Object, Resource
from kubesim.tables import table
from tests.kubesim.kinds.pods.pod_specs import created
from tests.kubesim.kinds.strategy_writes import create, named, update

PODS, NODES = pods.resource(), nodes.resource()
WORDS = [
    "", "a", "a-b", "A_", " ", "1", "500m", "1Gi", "-1", "1e400", "Always", "Never", "OnFailure", "Exists", "In", "Gt",
    "Equal", "NoExecute", "Node", "None", "True", "cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "hugepages-0Mi",
    "10.0.0.1", "::1", "10.0.0.0/8", "/", "../a", "limits.cpu", "metadata.name", "metadata.labels['x']", "\ud800",
    "2026-01-01T00:00:00Z", "TCP", "HTTP", "Localhost", "Bidirectional", "Guaranteed", "x" * 300,
]  # fmt: skip

TEXT = st.sampled_from(WORDS) | st.text(max_size=4)
NUMBERS = st.sampled_from([0, 1, -1, 30, 80, 65536, 2**31 - 1, -(2**31)])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=6,
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values of the right JSON types, and of little else."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return st.dictionaries(TEXT, JUNK, max_size=2)
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from([0, 1, -1, "1", "500m", "1Gi", "x", "", "80", "http"])
    match schema["type"]:
        case "string":
            return TEXT
        case "boolean":
            return st.booleans()
        case "integer":
            return NUMBERS
        case "array":
            return st.lists(st.deferred(lambda: fitting(schema["items"])), max_size=2)
        case "object" if "properties" in schema:
            properties = schema["properties"]
            return st.lists(st.sampled_from(sorted(properties)), max_size=4, unique=True).flatmap(
                lambda names: st.fixed_dictionaries({name: fitting(properties[name]) for name in names})
            )
        case _:
            return st.dictionaries(TEXT, fitting(schema["additionalProperties"]), max_size=2)


def _attempt(act: Any, *args: Any, **options: Any) -> Object | None:
    try:
        found: Object = act(*args, **options)
    except ApiError as error:
        refused = error
    else:
        return found
    assert 400 <= refused.code < 500, refused
    json.dumps(refused.status())
    return None


def _check(resource: Resource, written: Object, old: Object) -> None:
    new = _attempt(create, resource, copy.deepcopy(written))
    if new is not None:
        table(resource, [new], {})
        assert _attempt(create, resource, new) is not None, "what is stored can be written again"
    for sub in ("", "status"):
        changed = _attempt(update, resource, old, copy.deepcopy(written), sub=sub)
        if changed is not None:
            table(resource, [changed], {})


@pytest.mark.parametrize("resource", [PODS, NODES], ids=["pods", "nodes"])
@given(spec=JUNK, status=JUNK)
def test_junk(resource: Resource, spec: Any, status: Any) -> None:
    _check(resource, named("p", spec=spec, status=status), created() if resource is PODS else create(NODES, named("p")))


@given(
    spec=fitting(PODS.schema.openapi["properties"]["spec"]), status=fitting(PODS.schema.openapi["properties"]["status"])
)
def test_pods_of_the_right_types(spec: Any, status: Any) -> None:
    spec.setdefault("containers", [{"name": "c", "image": "busybox:1"}])
    _check(PODS, named("p", spec=spec, status=status), created(schedulingGates=[{"name": "x"}]))


@given(fields=st.data())
def test_containers_of_the_right_types(fields: Any) -> None:
    shape = PODS.schema.openapi["properties"]["spec"]["properties"]["containers"]["items"]
    drawn = fields.draw(fitting(shape))
    drawn |= {"name": "c", "image": "busybox:1"}
    _check(PODS, named("p", spec={"containers": [drawn], "volumes": [{"name": "a"}]}), created())


@given(
    spec=fitting(NODES.schema.openapi["properties"]["spec"]),
    status=fitting(NODES.schema.openapi["properties"]["status"]),
)
def test_nodes_of_the_right_types(spec: Any, status: Any) -> None:
    _check(NODES, named("p", spec=spec, status=status), create(NODES, named("p")))
