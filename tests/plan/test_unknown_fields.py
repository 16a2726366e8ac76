"""Fields that a manifest has and its CRD does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pumice.plan.unknown_fields import unknown_fields

ROOT = Path(__file__).parents[2]


def found(kind: str, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(error.field, error.message) for error in unknown_fields(kind, document)]


def test_fields_are_named_at_every_depth_with_what_was_meant() -> None:
    spec = {"weight": 3, "wieght": 3, "guarantee": {"resources": {"cpu": 1}}}
    assert found("Queue", {"metadata": {"name": "a", "anything": 1}, "spec": spec, "sepc": {}}) == [
        ("spec.wieght", "unknown field, did you mean 'weight'?"),
        ("spec.guarantee.resources", "unknown field, did you mean 'resource'?"),
        ("sepc", "unknown field, did you mean 'spec'?"),
    ]


def test_names_of_resources_are_free_and_kinds_without_a_definition_are_not_judged() -> None:
    assert found("Queue", {"spec": {"capability": {"example.com/any": 1}}}) == []
    assert found("Node", {"spec": {"wieght": 3}}) == []


def test_everything_that_the_examples_use_is_known() -> None:
    documents = [
        (file, document)
        for file in sorted((ROOT / "examples").rglob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if isinstance(document, dict)
    ]
    judged = [(file, one) for file, one in documents if "volcano.sh" in str(one.get("apiVersion"))]
    assert len(judged) > 30
    assert [(file.name, error) for file, one in judged for error in found(str(one["kind"]), one)] == []
