"""The columns of custom resources: cells as a real kube-apiserver 1.36 shows them."""

from typing import Any

import pytest

from kubebase.ages import at, seconds
from kubesim.tables.custom import columns

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "creationTimestamp": "2026-11-15T10:00:00Z"},
    "spec": {
        "text": "s", "int": 3, "float": 2.5, "whole": 4.0, "bool": True, "date": "2026-11-15T10:00:00Z",
        "list": ["a", "b"], "ints": [1, 2], "map": {"b": 1, "a": {"x": "<y>"}}, "null": None, "big": 1e21,
        "html": "<&>", "empty": "", "nothing": [],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".spec.text", "s"),
        ("string", ".spec.int", "3"),
        ("string", ".spec.float", "2.5"),
        ("string", ".spec.whole", "4"),
        ("string", ".spec.big", "1e+21"),
        ("string", ".spec.bool", "true"),
        ("string", ".spec.list", '["a","b"]'),
        ("string", ".spec.list[*]", "a"),
        ("string", ".spec.map", '{"a":{"x":"\\u003cy\\u003e"},"b":1}'),
        ("string", ".spec.html", "<&>"),
        ("string", ".spec.empty", ""),
        ("string", ".spec.nothing", "[]"),
        ("string", ".spec.null", "<no value>"),
        ("string", ".spec.nope", None),
        ("string", ".spec.date", "2026-11-15T10:00:00Z"),
        ("integer", ".spec.int", 3),
        ("integer", ".spec.float", 2),
        ("integer", ".spec.text", None),
        ("integer", ".spec.map", None),
        ("integer", ".spec.bool", None),
        ("integer", ".spec.ints[*]", 1),
        ("number", ".spec.float", 2.5),
        ("number", ".spec.int", 3),
        ("number", ".spec.text", None),
        ("boolean", ".spec.bool", True),
        ("boolean", ".spec.text", None),
        ("date", ".spec.date", "7h5m"),
        ("date", ".spec.text", "<invalid>"),
        ("date", ".spec.int", None),
        ("date", ".spec.nope", None),
        ("string", ".spec[", None),
    ],
)
def test_cells(kind: str, path: str, cell: object) -> None:
    (_, column) = columns([{"name": "X", "type": kind, "jsonPath": path}])
    with at(seconds("2026-11-15T17:05:00Z")):
        found = column.value(OBJECT)
    assert (found, type(found)) == (cell, type(cell))


def test_definitions() -> None:
    name, plain, wide = columns(
        [
            {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
            {"name": "W", "type": "string", "jsonPath": ".x", "priority": 1, "description": "d", "format": "byte"},
        ]
    )
    assert (name.name, name.format) == ("Name", "name")
    assert (plain.name, plain.type, plain.format, plain.priority, plain.description) == (
        "Text", "string", "", 0, "Custom resource definition column (in JSONPath format): .spec.text",
    )  # fmt: skip
    assert (wide.priority, wide.description, wide.format) == (1, "d", "byte")


def test_a_definition_without_columns_shows_the_age() -> None:
    with at(seconds("2026-11-15T17:05:00Z")):
        assert [(column.name, column.type, column.value(OBJECT)) for column in columns([])] == [
            ("Name", "string", "a"),
            ("Age", "date", "7h5m"),
        ]
