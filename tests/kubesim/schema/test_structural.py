"""Which OpenAPI dicts are structural schemas, in the words of the real server (checked against 1.36)."""

from typing import Any

import pytest

from kubesim.schema import Schema, SchemaError

TEXT = {"type": "string"}


def shape(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


OBJECTS = {**shape(a=TEXT), "required": ["a"]}


def complaints(openapi: Any) -> list[str]:
    try:
        Schema(openapi, "R")
    except SchemaError as error:
        return [str(problem) for problem in error.problems]
    return []


def about_field(field: Any) -> list[str]:
    texts = complaints({"type": "object", "properties": {"x": field}})
    return [text.removeprefix("R.properties[x]").removeprefix(".") for text in texts]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({}, ["type: Required value: must not be empty for specified object fields"]),
        (
            {"type": "foo"},
            [
                'type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"'
            ],
        ),
        ({"type": "array"}, ["items: Required value: must be specified"]),
        (
            {"type": "array", "items": {}},
            ["items.type: Required value: must not be empty for specified array items"],
        ),
        (
            {"type": "array", "items": [{"type": "string"}]},
            ["items: Forbidden: items must be a schema object and not an array"],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
            ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            {"type": "string", "pattern": "("},
            [
                'pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ): `(`"
            ],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            [
                "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic"
            ],
        ),
        ({"$ref": "#/x"}, ["$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "object", "anyOf": [{"type": "object", "description": "d", "default": {}}]},
            [
                "anyOf[0].default: Forbidden: must be undefined to be structural",
                "anyOf[0].description: Forbidden: must be empty to be structural",
                "anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"type": "object", "not": {"properties": {"q": {"nullable": True}}}},
            ["not.properties[q].nullable: Forbidden: must be false to be structural"],
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
            [
                "anyOf[0].type: Forbidden: must be empty to be structural",
                "anyOf[1].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            [
                "x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true"
            ],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ["x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            ],
        ),
        (
            {"type": "object", "x-kubernetes-list-type": "set"},
            ['type: Invalid value: "object": must be array if x-kubernetes-list-type is specified'],
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            [
                "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
                "x-kubernetes-list-type=set"
            ],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"},
            [
                "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
                'items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
            ],
        ),
        (
            {"type": "array", "items": OBJECTS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]},
            ['x-kubernetes-list-map-keys: Invalid value: ["b"]: entries must all be names of item properties'],
        ),
        (
            {
                "type": "array",
                "items": {**OBJECTS, "required": []},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            },
            [
                "items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
                "must have a default or be a required property"
            ],
        ),
        (
            {"type": "array", "items": OBJECTS, "x-kubernetes-list-map-keys": ["a"]},
            ["x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "foo"},
            ['x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", "granular"'],
        ),
        (
            {"type": "string", "default": 5},
            ['default: Invalid value: "integer":  in body must be of type string: "integer"'],
        ),
        (
            {"type": "object", "default": {"a": 1}, "properties": {"b": {"type": "string"}}},
            ['default: Invalid value: {"a":1}: must not have unknown fields'],
        ),
        (
            {**shape(a={"type": "array", "items": TEXT}), "default": {"a": [5]}},
            ['default.a[0]: Invalid value: "integer": a[0] in body must be of type string: "integer"'],
        ),
        ({**OBJECTS, "default": {}}, ["default.a: Required value"]),
        # Where the real server cannot even read the definition.
        (
            {"type": "string", "maxLength": "x"},
            ['maxLength: Invalid value: "string": R.properties[x].maxLength in body must be of type integer: "string"'],
        ),
        (5, [': Invalid value: "integer": R.properties[x] in body must be of type object: "integer"']),
    ],
)
def test_fields_that_are_not_structural(field: Any, expected: list[str]) -> None:
    assert about_field(field) == expected


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "string", "format": "nonsense", "title": "t", "description": "d", "example": 1, "externalDocs": {}},
        {"type": "string", "nullable": True, "default": None},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}],
        },
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": OBJECTS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        {"type": "array", "items": {**shape(), "x-kubernetes-map-type": "atomic"}, "x-kubernetes-list-type": "set"},
        {"type": "string", "x-nobody-knows": 1, "minimum": 5, "maxLength": -1},
        {"type": None, "properties": None, "x-kubernetes-preserve-unknown-fields": True, "enum": None},
    ],
)
def test_fields_that_are_structural(field: dict[str, Any]) -> None:
    assert about_field(field) == []


@pytest.mark.parametrize(
    ("openapi", "expected"),
    [
        ({}, "R.type: Required value: must not be empty at the root"),
        ({"type": "string"}, 'R.type: Invalid value: "string": must be object at the root'),
        ({"type": "object", "nullable": True}, "R.nullable: Forbidden: nullable cannot be true at the root"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            "R.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "minProperties": 1}}},
            "R.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "string", "default": "A"}}},
            "R.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            {"type": "object", "properties": {"apiVersion": {"type": "integer"}}},
            'R.properties[apiVersion].type: Invalid value: "integer": must be string',
        ),
    ],
)
def test_roots_that_are_not_structural(openapi: dict[str, Any], expected: str) -> None:
    assert complaints(openapi) == [expected]


def test_expressions_are_accepted_and_named() -> None:
    rules = [{"rule": "self.size() < 5"}]
    field = {"type": "string", "x-kubernetes-validations": rules}
    schema = Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": field}}}}, "R")
    assert schema.unevaluated == ["R.properties[spec].properties[x].x-kubernetes-validations"]


def test_a_schema_can_only_be_so_deep() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}}
    (text,) = complaints(deep)
    assert text.endswith("must not nest more than 90 levels")
