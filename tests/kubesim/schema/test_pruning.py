"""Unknown fields and defaults, as the real server handles them (checked against kube-apiserver 1.36)."""

from typing import Any

import pytest

from kubesim.schema import Schema

TEXT = {"type": "string"}
WITH_DEFAULT = {"type": "object", "properties": {"a": {"type": "integer", "default": 3}}}


def schema_of(field: dict[str, Any]) -> Schema:
    return Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": field}}}})


@pytest.mark.parametrize(
    ("field", "value", "pruned", "paths"),
    [
        ({"type": "object"}, {"a": 1}, {}, ["spec.x.a"]),
        ({"type": "object", "properties": {"a": TEXT}}, {"a": "1", "b": {"c": 1}}, {"a": "1"}, ["spec.x.b"]),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
            [{"a": "1", "b": 2}, {"c": 3}],
            [{"a": "1"}, {}],
            ["spec.x[0].b", "spec.x[1].c"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
            {"k.l": {"a": "1", "b": 2}},
            {"k.l": {"a": "1"}},
            ["spec.x.k.l.b"],
        ),
        # Any name is allowed, but nothing is known about what is inside.
        ({"type": "object", "additionalProperties": True}, {"k": {"a": 1}, "l": 1}, {"k": {}, "l": 1}, ["spec.x.k.a"]),
        ({"type": "object", "additionalProperties": False}, {"k": 1}, {"k": 1}, []),
        # What is known is pruned even where unknown fields stay ...
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"k": {"type": "object", "properties": {"a": TEXT}}},
            },
            {"k": {"a": "1", "b": 2}, "l": {"m": 1}},
            {"k": {"a": "1"}, "l": {"m": 1}},
            ["spec.x.k.b"],
        ),
        # ... but a list passes that on to its items.
        (
            {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "object"}},
            [{"a": 1}],
            [{"a": 1}],
            [],
        ),
        (
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}},
            },
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "n", "b": 1}, "spec": {"c": 1}, "status": 1},
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}, "spec": {}},
            ["spec.x.metadata.b", "spec.x.spec.c", "spec.x.status"],
        ),
    ],
)
def test_prune(field: dict[str, Any], value: Any, pruned: Any, paths: list[str]) -> None:
    obj = {"spec": {"x": value}}
    assert schema_of(field).prune(obj) == paths
    assert obj == {"spec": {"x": pruned}}


def test_prune_keeps_api_version_kind_and_metadata() -> None:
    obj = {"apiVersion": "v1", "kind": "A", "metadata": {"anything": [{"a": 1}]}, "spec": {}, "status": {}}
    assert schema_of(TEXT).prune(obj) == ["status"]
    assert obj == {"apiVersion": "v1", "kind": "A", "metadata": {"anything": [{"a": 1}]}, "spec": {}}


@pytest.mark.parametrize(
    ("field", "spec", "expected"),
    [
        ({"type": "integer", "default": 3}, {}, {"x": 3}),
        ({"type": "integer", "default": 3}, {"x": 4}, {"x": 4}),
        ({"type": "integer", "default": 3}, {"x": None}, {"x": 3}),
        ({"type": "integer", "default": 3, "nullable": True}, {"x": None}, {"x": None}),
        ({"type": "integer", "default": None}, {}, {}),
        ({"type": "integer"}, {"x": None}, {}),
        ({"type": "integer", "nullable": True}, {"x": None}, {"x": None}),
        ({**WITH_DEFAULT, "default": {}}, {}, {"x": {"a": 3}}),
        ({**WITH_DEFAULT, "default": {}}, {"x": None}, {"x": {"a": 3}}),
        (WITH_DEFAULT, {}, {}),
        (WITH_DEFAULT, {"x": {"a": None}}, {"x": {"a": 3}}),
        ({"type": "array", "items": WITH_DEFAULT}, {"x": [{}, {"a": 1}, None]}, {"x": [{"a": 3}, {"a": 1}, None]}),
        ({"type": "array", "items": {"type": "integer", "default": 4}}, {"x": [None, 1]}, {"x": [4, 1]}),
        ({"type": "array", "items": {"type": "integer"}}, {"x": [None]}, {"x": [None]}),
        ({"type": "object", "additionalProperties": WITH_DEFAULT}, {"x": {"k": {}, "l": None}}, {"x": {"k": {"a": 3}}}),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "default": 5}},
            {"x": {"k": None}},
            {"x": {"k": 5}},
        ),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"x": {"a": None}}, {"x": {"a": None}}),
    ],
)
def test_default(field: dict[str, Any], spec: Any, expected: Any) -> None:
    obj = {"spec": spec}
    schema_of(field).default(obj)
    assert obj == {"spec": expected}


def test_defaults_are_not_shared_between_objects() -> None:
    schema = schema_of({"type": "array", "items": TEXT, "default": ["a"]})
    one: dict[str, Any] = {"spec": {}}
    other: dict[str, Any] = {"spec": {}}
    schema.default(one)
    one["spec"]["x"].append("b")
    schema.default(other)
    assert other == {"spec": {"x": ["a"]}}


def test_a_dict_in_several_places_is_one_node_and_may_contain_itself() -> None:
    shared: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    shared["properties"]["children"] = {"type": "array", "items": shared}
    schema = Schema({"type": "object", "properties": {"spec": shared, "status": shared}})
    assert schema.root.properties["spec"] is schema.root.properties["status"]
    obj: dict[str, Any] = {"spec": {"children": [{"children": [{"n": "x", "m": 1}]}]}}
    assert schema.prune(obj) == ["spec.children[0].children[0].m"]
    schema.default(obj)
    assert obj == {"spec": {"n": 1, "children": [{"n": 1, "children": [{"n": "x"}]}]}}
    assert [p.field for p in schema.validate(obj)] == ["spec.children[0].children[0].n"]
    assert [p.field for p in schema.mistyped(obj)] == ["spec.children[0].children[0].n"]
