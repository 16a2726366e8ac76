"""Metadata: what is kept, what the server sets, what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubesim.api import metadata


def faults(found: dict[str, Any], **options: Any) -> list[str]:
    return [str(problem) for problem in metadata.check(found, **options)]


def test_unknown_fields_are_left_out_and_named() -> None:
    kept, unknown, fault = metadata.decode_metadata(
        {
            "name": "a",
            "colour": "red",
            "labels": None,
            "ownerReferences": [{"uid": "u", "more": 1}],
            "managedFields": [],
        }
    )
    assert kept == {"name": "a", "ownerReferences": [{"uid": "u"}]}
    assert unknown == ["metadata.colour", "metadata.ownerReferences[0].more"]
    assert fault == ""


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([], "metadata is not an object"),
        ({"name": 1}, "metadata.name is not of type string"),
        ({"labels": {"a": 1}}, "metadata.labels is not of type map[string]string"),
        ({"finalizers": "a"}, "metadata.finalizers is not of type []string"),
        ({"generation": True}, "metadata.generation is not of type int64"),
        ({"generation": 2**63}, "metadata.generation is not of type int64"),
        ({"creationTimestamp": "yesterday"}, "metadata.creationTimestamp is not of type time"),
        ({"ownerReferences": [{"controller": "yes"}]}, "metadata.ownerReferences is not of type []OwnerReference"),
    ],
)
def test_wrong_types_are_named(found: Any, fault: str) -> None:
    assert metadata.decode_metadata(found)[2] == fault


def test_create_fills_system_fields() -> None:
    found: dict[str, Any] = {"generateName": "job-", "uid": "mine", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    metadata.fill_system_fields(found, "2026-11-15T12:00:00Z", generation=True)
    assert re.fullmatch("job-[bcdfghjklmnpqrstvwxz2456789]{5}", found["name"])
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", found["uid"])
    assert found["creationTimestamp"] == "2026-11-15T12:00:00Z" and found["generation"] == 1
    assert "deletionTimestamp" not in found


def test_a_generated_name_is_never_too_long_for_a_label() -> None:
    assert len(metadata.generate_name("x" * 200)) == 63


def test_update_preserves_system_fields() -> None:
    old = {"name": "a", "uid": "u", "creationTimestamp": "then", "resourceVersion": "7", "generation": 2}
    new = {"name": "a", "creationTimestamp": "now", "deletionTimestamp": "soon", "labels": {"b": "c"}}
    metadata.preserve_system_fields(new, old)
    assert new == {**old, "labels": {"b": "c"}}


@pytest.mark.parametrize("name", ["a", "a.b", "a-1.b", "1", "a" * 253])
def test_good_names(name: str) -> None:
    assert faults({"name": name}) == []


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a..b", "a_b", "ä", "a" * 254, "a\n"])
def test_bad_names(name: str) -> None:
    assert all(text.startswith("metadata.name: Invalid value: ") for text in faults({"name": name}))
    assert faults({"name": name})


def test_a_namespace_is_one_label() -> None:
    found = faults({"name": "a.b"}, faults=metadata.label_name_faults)
    assert found == ['metadata.name: Invalid value: "a.b": must not contain dots']


@pytest.mark.parametrize("key", ["app", "example.com/app", "A.b_c-1", "x" * 63, "a.b/" + "x" * 63])
def test_good_label_keys(key: str) -> None:
    assert faults({"name": "a", "labels": {key: "v"}}) == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a/b/c", "-a", "a b", "x" * 64, "A.com/x", "ä"])
def test_bad_label_keys(key: str) -> None:
    assert faults({"name": "a", "labels": {key: "v"}})


@pytest.mark.parametrize("value", ["-", "a b", "x" * 64, "a\n", "ä"])
def test_bad_label_values(value: str) -> None:
    assert faults({"name": "a", "labels": {"k": value}})


def test_annotations_have_a_size_limit() -> None:
    # 262144 bytes in all: a key of 1 and a value of 262143 just fit.
    assert faults({"name": "a", "annotations": {"k": "x" * 262143}}) == []
    assert faults({"name": "a", "annotations": {"k": "x" * 262144}}) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_of_an_update_only_what_it_changes_is_judged() -> None:
    old = {"name": "a", "labels": {"-": "x"}, "annotations": {"k": "v"}}
    assert list(metadata.check(old)) != []
    assert list(metadata.check({**old, "annotations": {"k": "w"}}, old)) == []
    (problem,) = metadata.check({**old, "finalizers": ["own"]}, old)
    assert str(problem).startswith("metadata.finalizers[0]: Invalid value")
    assert len(list(metadata.check({**old, "labels": {"-": "y"}}, old))) == len(list(metadata.check(old)))


def test_finalizer_cannot_be_added_during_deletion() -> None:
    old = {"deletionTimestamp": "t", "finalizers": ["a/b"]}
    assert list(metadata.check_update({"finalizers": []}, old)) == []
    (problem,) = metadata.check_update({"finalizers": ["a/b", "c/d"]}, old)
    assert str(problem).startswith("metadata.finalizers: Forbidden: no new finalizers can be added")
