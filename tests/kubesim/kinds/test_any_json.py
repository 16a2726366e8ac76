"""No JSON crashes a strategy: whatever passes the schema is taken or refused, on create and on update alike."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesim import kinds
from kubesim.api.status import ApiError
from kubesim.registry.registry import Object, Resource
from tests.kubesim.kinds.strategy_writes import cells, create, update

RESOURCES = {resource.qualified: resource for resource in kinds.resources()}

TEXTS = st.sampled_from(
    ["", "a", "A b", "..", "1", "-1", "5%", "In", "Exists", "2026-11-15T12:00:00Z", "aGk="]
) | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**33), 2**33) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)


def shaped(schema: Object, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that mostly fit a schema, with anything at all now and then."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fitting: st.SearchStrategy[Any] = st.integers(-3, 3) | TEXTS
    elif kind == "string":
        fitting = TEXTS
    elif kind == "integer":
        fitting = st.integers(-3, 3) | st.sampled_from([2**31, 2**63])
    elif kind == "boolean":
        fitting = st.booleans()
    elif kind == "array" and depth < 9:
        fitting = st.lists(st.deferred(lambda: shaped(schema["items"], depth + 1)), max_size=2)
    elif schema.get("properties") and depth < 9:
        parts = {name: st.deferred(lambda s=part: shaped(s, depth + 1)) for name, part in schema["properties"].items()}
        fitting = st.fixed_dictionaries({}, optional=parts)
    elif isinstance(schema.get("additionalProperties"), dict) and depth < 9:
        inner = st.deferred(lambda: shaped(schema["additionalProperties"], depth + 1))
        fitting = st.dictionaries(TEXTS, inner, max_size=2)
    else:
        fitting = JSON
    return st.one_of(*[fitting] * 9, st.none(), JSON) if depth > 1 else fitting


def bodies(resource: Resource) -> st.SearchStrategy[Object]:
    metadata = st.fixed_dictionaries({"name": st.sampled_from(["a", "foos.a.com", "system-x"])})
    return st.builds(lambda body, about: {**body, "metadata": about}, shaped(resource.schema.openapi), metadata)


POD = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}
WHOLE: dict[str, Object] = {  # kinds of which hardly any random object is taken: changes are tried on these
    "jobs.batch": {"metadata": {"name": "a"}, "spec": {"template": {"spec": POD}}},
    "pods": {"metadata": {"name": "a"}, "spec": POD},
    "customresourcedefinitions.apiextensions.k8s.io": {
        "metadata": {"name": "foos.a.com"},
        "spec": {
            "group": "a.com",
            "scope": "Cluster",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    },
}


def taken(resource: Resource, sent: Object) -> Object | None:
    """The object, or None if it was refused."""
    with contextlib.suppress(ApiError):
        return create(resource, sent)
    return None


@pytest.mark.parametrize("name", RESOURCES)
def test_arbitrary_json_body_is_accepted_or_rejected(name: str) -> None:
    try_bodies(name, settings.default.max_examples)


@pytest.mark.long
@pytest.mark.parametrize("name", RESOURCES)
def test_many_json_bodies_are_accepted_or_rejected(name: str) -> None:
    try_bodies(name, 600)


def try_bodies(name: str, examples: int) -> None:
    resource = RESOURCES[name]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(bodies(resource), bodies(resource))
    def sent(first: Object, second: Object) -> None:
        found = taken(resource, first)
        if found is None and name in WHOLE:
            found = create(resource, WHOLE[name])
        if found is None:
            return
        cells(resource, found)
        for sub in ("", "status"):
            with contextlib.suppress(ApiError):
                cells(resource, update(resource, found, second, sub=sub if sub in resource.subresources else ""))

    sent()
