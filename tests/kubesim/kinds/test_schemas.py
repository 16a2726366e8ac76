"""The schemas of the built-in kinds, which the server takes for sound."""

from __future__ import annotations

import pytest

from kubesim import kinds
from kubesim.registry.registry import Resource
from kubesim.schema import Schema, SchemaError


@pytest.mark.parametrize("resource", list(kinds.resources()), ids=lambda resource: resource.kind)
def test_they_are(resource: Resource) -> None:
    assert Schema(resource.schema.openapi).unevaluated == []


def test_one_that_is_not_is_refused_where_it_comes_from_outside() -> None:
    with pytest.raises(SchemaError):
        Schema({"type": "object", "properties": {"a": {}}})


def test_nothing_is_made_before_it_is_needed() -> None:
    made: list[str] = []

    def make() -> dict[str, object]:
        made.append("made")
        return {"type": "object", "properties": {"a": {"type": "string"}}}

    schema = Schema.sound(make)
    assert not made
    assert [problem.field for problem in schema.validate({"a": 1})] == ["a"]
    assert schema.openapi["type"] == "object" and made == ["made"]
