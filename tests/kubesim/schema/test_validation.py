"""What is wrong with values, in the words of the real server (checked against kube-apiserver 1.36)."""

from typing import Any

import pytest

from kubesim.schema import Schema

NUMBERED = {"type": "integer", "minimum": 1, "maximum": 5}
NAMED = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "p": {"type": "integer"}}}


def problems(field: dict[str, Any], value: Any) -> list[str]:
    schema = Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": field}}}})
    return [str(problem) for problem in schema.validate({"spec": {"x": value}})]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (NUMBERED, "a", 'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'),
        (NUMBERED, True, 'spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'),
        (NUMBERED, 0, "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"),
        (NUMBERED, 6, "spec.x: Invalid value: 6: spec.x in body should be less than or equal to 5"),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            1,
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {"type": "number", "maximum": 0.5, "exclusiveMaximum": True},
            0.5,
            "spec.x: Invalid value: 0.5: spec.x in body should be less than 0.5",
        ),
        (
            {"type": "number", "multipleOf": 0.1},
            0.55,
            "spec.x: Invalid value: 0.55: spec.x in body should be a multiple of 0.1",
        ),
        (
            {"type": "integer", "multipleOf": -2},
            4,
            "spec.x: Invalid value: -2: factor MultipleOf declared for spec.x must be positive: -2",
        ),
        (
            {"type": "number", "maximum": 10000000},
            1.5e8,
            "spec.x: Invalid value: 150000000.0: spec.x in body should be less than or equal to 1e+07",
        ),
        (
            {"type": "string", "minLength": 2},
            "a",
            'spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long',
        ),
        ({"type": "string", "maxLength": 4}, "ééééé", "spec.x: Too long: may not be more than 4 bytes"),
        ({"type": "string", "pattern": "^a"}, "b", "spec.x: Invalid value: \"b\": spec.x in body should match '^a'"),
        (
            {"type": "string", "format": "date"},
            "x",
            'spec.x: Invalid value: "x": spec.x in body must be of type date: "x"',
        ),
        ({"type": "string", "enum": ["A", "B"]}, "x", 'spec.x: Unsupported value: "x": supported values: "A", "B"'),
        ({"type": "integer", "enum": [1, 2]}, 3, 'spec.x: Unsupported value: 3: supported values: "1", "2"'),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            {},
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 0},
            {"a": "b"},
            "spec.x: Too many: 1: must have at most 0 items",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a.b/c": "x"},
            'spec.x.a.b/c: Invalid value: "string": spec.x.a.b/c in body must be of type integer: "string"',
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"y": 1},
            'spec.x: Invalid value: "y": spec.x.y in body is a forbidden property',
        ),
        (NAMED, {}, "spec.x.k: Required value"),
        (NAMED, [], 'spec.x: Invalid value: "array": spec.x in body must be of type object: "array"'),
        (
            {"x-kubernetes-int-or-string": True},
            5.5,
            'spec.x: Invalid value: "number": spec.x in body must be of type integer,string: "number"',
        ),
        (
            {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%$"},
            "a",
            "spec.x: Invalid value: \"a\": spec.x in body should match '^[0-9]+%$'",
        ),
        (
            {"x-kubernetes-int-or-string": True, "format": "quantity"},
            "1 Gi",
            'spec.x: Invalid value: "1 Gi": quantities must match the regular expression '
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x',
        ),
        (
            {"type": "number", "format": "float"},
            1e300,
            '<nil>: Invalid value: "": Checked value must be of type number with format float in spec.x',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "b", "a", "a"],
            'spec.x[2]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "items": {**NAMED, "required": ["k", "p"]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
            },
            [{"k": "a", "p": 1}, {"k": "a", "p": 2}, {"k": "a", "p": 1}],
            'spec.x[2]: Duplicate value: {"k":"a","p":1}',
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["a"]}},
            {"a": "x"},
            '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)',
        ),
        (
            {"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]},
            4,
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives",
        ),
    ],
)
def test_the_one_problem_of_a_value(field: dict[str, Any], value: Any, expected: str) -> None:
    assert problems(field, value) == [expected]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (
            NUMBERED,
            1.5,
            [
                'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
            ],
        ),
        (
            NUMBERED,
            2**63,
            [
                'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
                "spec.x: Invalid value: 9.223372036854776e+18: spec.x in body should be less than or equal to 5",
            ],
        ),
        (
            {"type": "string", "enum": ["A"]},
            5,
            [
                'spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"',
                'spec.x: Unsupported value: 5: supported values: "A"',
            ],
        ),
        (  # of length and pattern the first that fails is enough; format and enumeration are looked at as well
            {"type": "string", "maxLength": 2, "pattern": "^x", "enum": ["q"], "format": "date"},
            "abc",
            [
                "spec.x: Too long: may not be more than 2 bytes",
                'spec.x: Invalid value: "abc": spec.x in body must be of type date: "abc"',
                'spec.x: Unsupported value: "abc": supported values: "q"',
            ],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            [1, None, "x"],
            [
                'spec.x[0]: Invalid value: "integer": spec.x[0] in body must be of type string: "integer"',
                'spec.x[1]: Invalid value: "null": spec.x[1] in body must be of type string: "null"',
                "spec.x: Too many: 3: must have at most 2 items",
            ],
        ),
        (
            {**NAMED, "minProperties": 3},
            {"p": "x"},
            [
                "spec.x: Invalid value: 1: spec.x in body should have at least 3 properties",
                'spec.x.p: Invalid value: "string": spec.x.p in body must be of type integer: "string"',
                "spec.x.k: Required value",
            ],
        ),
        (
            {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}]},
            6,
            [
                "spec.x: Invalid value: 6: spec.x in body should be less than or equal to 5",
                '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                "anyOf": [{"required": ["a"], "properties": {"a": {"minimum": 3}}}, {"required": ["b"]}],
            },
            {"a": 1},
            [
                '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                "spec.x.a: Invalid value: 1: spec.x.a in body should be greater than or equal to 3",
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
                "spec.x.a: Required value",
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            {},
            ["spec.x.apiVersion: Required value", "spec.x.kind: Required value"],
        ),
        (
            {"type": "array", "items": NAMED, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            [5, 5],
            [
                'spec.x[0]: Invalid value: "integer": spec.x[0] in body must be of type object: "integer"',
                'spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type object: "integer"',
                "spec.x[0]: Invalid value: 5: must be an object for an array of list-type map",
            ],
        ),
    ],
)
def test_all_problems_of_a_value_in_order(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert problems(field, value) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (NUMBERED, 1),
        (NUMBERED, 5.0),  # a whole number, however it is written
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({"type": "number"}, 2**70),
        ({"type": "integer"}, 2**63 - 1),
        ({"type": "string", "nullable": True, "minLength": 3, "pattern": "^x"}, None),
        ({"type": "object", "nullable": True, "required": ["a"]}, None),
        ({"x-kubernetes-preserve-unknown-fields": True}, [{"a": None}]),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "5"),
        ({"x-kubernetes-int-or-string": True, "format": "quantity"}, "1.5Gi"),
        ({"x-kubernetes-int-or-string": True, "format": "quantity"}, 0.5),
        ({"type": "string", "format": "nobody-knows"}, "x"),
        ({"type": "string", "enum": []}, "x"),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}, ["a", "a"]),
        ({"type": "array", "items": {"type": "boolean"}, "x-kubernetes-list-type": "set"}, [True, False]),
        ({"x-kubernetes-preserve-unknown-fields": True, "enum": [1, {"a": [True]}]}, {"a": [True]}),
        ({"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}, {"multipleOf": 2}]}, 1),
    ],
)
def test_valid_values_have_no_problems(field: dict[str, Any], value: Any) -> None:
    assert problems(field, value) == []


def test_values_that_python_takes_for_equal_are_not() -> None:
    mixed = {"x-kubernetes-preserve-unknown-fields": True}
    assert problems({**mixed, "enum": [1]}, True)
    assert problems({**mixed, "enum": [{"a": 0}]}, {"a": False})
    assert not problems({"type": "array", "items": mixed, "x-kubernetes-list-type": "set"}, [1, True, "1", None, [1]])


def test_null_is_never_in_an_enumeration() -> None:
    field = {"type": "string", "nullable": True, "enum": ["a", None]}
    assert problems(field, None) == ['spec.x: Unsupported value: null: supported values: "a", "null"']


def test_metadata_can_be_restricted_but_is_not_described() -> None:
    schema = Schema(
        {
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^team-"}}}
            },
        }
    )
    assert schema.validate({"metadata": {"name": "team-a", "labels": 5}}) == []
    (problem,) = schema.validate({"metadata": {"name": "a"}})
    assert problem.field == "metadata.name"


def test_mistyped_knows_of_types_and_nothing_else() -> None:
    field = {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "integer", "format": "int32", "minimum": 3},
            "q": {"x-kubernetes-int-or-string": True, "format": "quantity"},
            "t": {"type": "string", "format": "date", "enum": ["a"]},
        },
    }
    schema = Schema({"type": "object", "properties": {"spec": field}})
    assert schema.mistyped({"spec": {"n": 1, "t": "b", "unknown": []}}) == []
    assert schema.mistyped({"spec": {"n": None}}) == []
    assert schema.mistyped({"spec": None}) == []
    wrong = schema.mistyped({"spec": {"n": 2**31, "q": "1 Gi", "t": 5}})
    assert [problem.field for problem in wrong] == ["<nil>", "spec.q", "spec.t"]
    assert [problem.field for problem in schema.mistyped({"spec": []})] == ["spec"]
