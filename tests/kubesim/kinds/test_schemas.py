"""The schemas of the built-in kinds, which the server takes for sound."""

from __future__ import annotations

import pytest

from kubesim import kinds
from kubesim.registry.registry import Resource
from kubesim.schema import Schema, SchemaError


@pytest.mark.parametrize("resource", list(kinds.resources()), ids=lambda resource: resource.kind)
def test_built_in_schemas_are_fully_evaluated(resource: Resource) -> None:
    assert Schema(resource.schema.openapi).unevaluated == []


def test_unsound_schema_is_rejected() -> None:
    with pytest.raises(SchemaError):
        Schema({"type": "object", "properties": {"a": {}}})


def test_sound_schema_is_built_lazily() -> None:
    made: list[str] = []

    def make() -> dict[str, object]:
        made.append("made")
        return {"type": "object", "properties": {"a": {"type": "string"}}}

    schema = Schema.sound(make)
    assert not made
    assert [problem.field for problem in schema.validate({"a": 1})] == ["a"]
    assert schema.openapi["type"] == "object" and made == ["made"]
