"""Tables: rows, headers, what of each object comes along."""

import pytest

from kubebase.ages import seconds
from kubesim.api.status import ApiError
from kubesim.kinds import pods
from kubesim.registry.registry import Resource
from kubesim.schema import Schema
from kubesim.tables import partial, table

NOW = seconds("2026-11-15T12:05:00Z")
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "creationTimestamp": "2026-11-15T12:00:00Z"},
    "spec": {"containers": [{"name": "c"}]},
    "status": {"phase": "Succeeded"},
}
PODS = pods.resource()
PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]}


def test_a_table() -> None:
    found = table(PODS, [POD], {"resourceVersion": "7"}, now=NOW)
    assert {key: found[key] for key in ("kind", "apiVersion", "metadata")} == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
    }
    assert [(c["name"], c["type"], c["format"], c["priority"]) for c in found["columnDefinitions"]] == [
        ("Name", "string", "name", 0),
        ("Ready", "string", "", 0),
        ("Status", "string", "", 0),
        ("Restarts", "string", "", 0),
        ("Age", "string", "", 0),
        ("IP", "string", "", 1),
        ("Node", "string", "", 1),
        ("Nominated Node", "string", "", 1),
        ("Readiness Gates", "string", "", 1),
    ]
    completed = {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    }
    assert found["rows"] == [
        {
            "cells": ["p", "0/1", "Succeeded", "0", "5m", "<none>", "<none>", "<none>", "<none>"],
            "conditions": [completed],
            "object": PARTIAL,
        }
    ]


@pytest.mark.parametrize(
    ("include", "expected"), [("", PARTIAL), ("Metadata", PARTIAL), ("Object", POD), ("None", None)]
)
def test_table_include_object(include: str, expected: object) -> None:
    assert table(PODS, [POD], {}, include)["rows"][0]["object"] == expected


def test_table_include_object_is_validated() -> None:
    with pytest.raises(ApiError) as refused:
        table(PODS, [POD], {}, "Foo")
    assert (refused.value.code, refused.value.message) == (
        400,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', "
        "'Object', 'None', or empty",
    )


def test_only_the_first_table_of_a_watch_has_a_header() -> None:
    assert table(PODS, [POD], {}, header=False)["columnDefinitions"] is None


def test_a_kind_without_columns_shows_name_and_age() -> None:
    plain = Resource("", "v1", "things", "Thing", True, Schema({"type": "object"}))
    found = table(plain, [POD], {}, now=NOW)
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Age"]
    assert found["rows"][0]["cells"] == ["p", "5m"]


def test_a_bookmark_is_an_object_without_a_name() -> None:
    # In a watch of tables even a bookmark is a row.
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    found = table(PODS, [bookmark], {"resourceVersion": "9"}, header=False)
    assert found["rows"][0]["cells"] == ["", "0/0", "", "0", "<unknown>", *["<none>"] * 4]


def test_metadata_alone() -> None:
    assert partial(POD) == PARTIAL
