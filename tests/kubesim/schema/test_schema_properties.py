"""What holds for any schema and any object."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesim.schema import DEEPEST, Schema, SchemaError, deeper

NAMES = st.sampled_from(["a", "b", "c", "spec", "metadata", "kind"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "2020-01-01", "1Gi", "x" * 70]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=20,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5)

LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(-2, 2),
        "exclusiveMinimum": st.booleans(),
        "maximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([0, 1, 2, 0.5, -1]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "^$", "[0-9]"]),
        "format": st.sampled_from(["int32", "date", "quantity", "float", "uri", "duration"]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "enum": st.lists(JSON, max_size=3),
        "required": st.lists(NAMES, max_size=2),
    },
)


def _field(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    common = st.fixed_dictionaries({}, optional={"nullable": st.booleans()})
    combined = st.fixed_dictionaries(
        {},
        optional={"anyOf": st.lists(LIMITS, max_size=2), "oneOf": st.lists(LIMITS, max_size=2), "not": LIMITS},
    )
    fields = st.dictionaries(NAMES, inner, max_size=3)
    preserving = st.just({"x-kubernetes-preserve-unknown-fields": True})
    shapes = st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, fields),
        st.builds(lambda p: {"type": "object", "additionalProperties": p}, st.one_of(inner, st.booleans())),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda i: {"type": "array", "items": i, "x-kubernetes-list-type": "set"}, inner),
        preserving,
        st.builds(lambda p, one: {"type": "object", "properties": p, **one}, fields, preserving),
    )
    return st.builds(lambda *parts: {k: v for part in parts for k, v in part.items()}, LIMITS, combined, common, shapes)


LEAVES = st.builds(
    lambda limits, kind, default: {**limits, **kind, **default},
    LIMITS,
    st.one_of(
        st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "integer", "number", "boolean"])),
        st.just({"x-kubernetes-int-or-string": True}),
    ),
    st.one_of(st.just({}), st.builds(lambda value: {"default": value}, SCALARS)),
)
FIELDS = st.recursive(LEAVES, _field, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    properties = draw(st.dictionaries(st.sampled_from(["a", "b", "spec"]), FIELDS, max_size=4))
    try:
        return Schema({"type": "object", "properties": properties})
    except SchemaError:  # a default that is not valid, a set of objects
        return Schema({"type": "object", "properties": {"spec": {"type": "object"}}})


@given(schemas(), OBJECTS)
def test_pruning_and_defaulting_twice_changes_nothing_more(schema: Schema, obj: dict[str, Any]) -> None:
    schema.prune(obj)
    pruned = copy.deepcopy(obj)
    assert schema.prune(obj) == []
    assert obj == pruned
    schema.default(obj)
    defaulted = copy.deepcopy(obj)
    schema.default(obj)
    assert obj == defaulted
    assert schema.prune(obj) == []  # no default is unknown


@given(schemas(), OBJECTS)
def test_any_object_is_judged_and_left_alone(schema: Schema, obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    for problem in [*schema.mistyped(obj), *schema.validate(obj)]:
        assert str(problem)
    assert obj == before


@given(schemas(), OBJECTS)
def test_what_is_quickly_found_right_is_right(schema: Schema, obj: dict[str, Any]) -> None:
    # The quick verdict and the slow findings are two programs; the quick one may only err on one side.
    from kubesim.schema.errors import findings

    if schema.root.holds(obj):
        assert findings(schema.root, obj, "") == []


def _edited(old: Any, choose: st.DataObject) -> Any:
    """A state after an edit as verbs make it: what the edit left alone is the same object as before."""
    kept = dict(old)
    for key in choose.draw(st.sets(NAMES, max_size=3)):
        if isinstance(old.get(key), dict) and choose.draw(st.booleans()):
            kept[key] = _edited(old[key], choose)
        elif choose.draw(st.booleans()):
            kept[key] = choose.draw(JSON)
        else:
            kept.pop(key, None)
    return kept


@given(schemas(), OBJECTS, st.data())
def test_a_change_of_a_stored_object_is_judged_as_the_whole(
    schema: Schema, stored: dict[str, Any], choose: st.DataObject
) -> None:
    schema.prune(stored)
    schema.default(stored)
    new = _edited(stored, choose)
    whole = copy.deepcopy(new)
    if not schema.mistyped(stored):
        assert schema.mistyped(new, stored) == schema.mistyped(whole)
    if not schema.validate(stored):
        assert schema.validate(new, stored) == schema.validate(whole)
    assert schema.prune(copy.deepcopy(new), None) == schema.prune(whole)
    changed = _unshared(new, stored)
    assert schema.prune(changed, stored) == schema.prune(copy.deepcopy(new))
    assert changed == whole
    schema.default(changed, stored)
    schema.default(whole)
    assert changed == whole


def _unshared(new: Any, old: Any) -> Any:
    """A copy that may be changed in place, except for the parts that are those of the old state."""
    if new is old or not isinstance(new, dict) or not isinstance(old, dict):
        return new if new is old else copy.deepcopy(new)
    return {key: _unshared(item, old.get(key)) for key, item in new.items()}


@given(schemas(), OBJECTS)
def test_what_was_pruned_is_named(schema: Schema, obj: dict[str, Any]) -> None:
    def size(value: Any) -> int:
        below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return 1 + sum(map(size, below))

    before = size(obj)
    paths = schema.prune(obj)
    assert len(set(paths)) == len(paths) or any("." in name for name in paths)
    assert bool(paths) == (size(obj) < before)


@given(JSON)
def test_any_json_is_a_schema_or_refused(openapi: Any) -> None:
    try:
        schema = Schema(openapi)
    except SchemaError:
        return
    assert schema.prune({"kind": "A"}) == []


@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "properties", "items", "additionalProperties", "allOf", "anyOf", "not", "default", "pattern",
             "enum", "required", "maximum", "multipleOf", "maxLength", "format", "nullable", "x-kubernetes-list-type",
             "x-kubernetes-list-map-keys", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
             "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations", "x-kubernetes-patch-strategy"]
        ),
        st.one_of(JSON, LEAVES, st.dictionaries(NAMES, LEAVES, max_size=2), st.lists(LIMITS, max_size=2),
                  st.sampled_from(["object", "array", "string", "map", "set"])),
    ),
    OBJECTS,
)  # fmt: skip
def test_keywords_with_anything_in_them(field: dict[str, Any], obj: dict[str, Any]) -> None:
    try:
        schema = Schema({"type": "object", "properties": {"spec": field}})
    except SchemaError:
        return
    schema.mistyped(obj)
    schema.prune(obj)
    schema.default(obj)
    schema.validate(obj)


def test_objects_can_be_as_deep_as_is_allowed() -> None:
    # A schema that contains itself is the only one that follows an object however deep it is.
    tree: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    tree["properties"]["t"] = tree
    schema = Schema({"type": "object", "properties": {"spec": tree}})
    deep: dict[str, Any] = {"x": 1, "n": "wrong"}
    for _ in range(DEEPEST - 2):
        deep = {"t": deep}
    obj = {"spec": deep}
    assert not deeper(obj) and deeper({"spec": {"t": deep}})
    assert len(schema.mistyped(obj)) == 1
    assert len(schema.prune(obj)) == 1
    schema.default(obj)
    assert len(schema.validate(obj)) == 1


@given(JSON)
def test_depth(value: Any) -> None:
    def depth(part: Any) -> int:
        if not isinstance(part, dict | list):
            return 0
        return 1 + max((depth(item) for item in (part.values() if isinstance(part, dict) else part)), default=0)

    found = depth(value)
    assert not deeper(value, found)
    assert found == 0 or deeper(value, found - 1)


def test_huge_numbers() -> None:
    schema = Schema(
        {
            "type": "object",
            "properties": {
                "i": {"type": "integer", "minimum": 3, "multipleOf": 7},
                "n": {"type": "number", "maximum": 5, "multipleOf": 0.3, "enum": [1]},
                "q": {"x-kubernetes-int-or-string": True, "format": "quantity"},
            },
        }
    )
    for value in (10**400, -(10**400), 1e308, -1e308, 5e-324):
        for problem in schema.validate({"i": value, "n": value, "q": value}):
            assert json.dumps(str(problem))
