"""Applying: for random objects, applied by several in random order, the rules that everybody relies on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.apply import APPLY, UPDATE, ApplyRequest, FieldManager, UpdateOwnership, field_set
from kubesim.apply.merge import merge_applied, remove_fields
from kubesim.schema import Schema

ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"}},
}
SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "texts": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "additionalProperties": {"type": "string"},
                    },
                    "list": {"type": "array", "items": {"type": "string"}},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "items": {
                        "type": "array",
                        "items": ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            }
        },
    }
)
NODE = SCHEMA.applied
NOW = "2026-01-01T00:00:00Z"

words = st.sampled_from(["x", "y", "z"])
maps = st.dictionaries(words, words, min_size=1, max_size=3)
items = st.dictionaries(words, st.fixed_dictionaries({}, optional={"a": st.integers(0, 2), "b": st.integers(0, 2)}))
specs = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 2),
        "texts": maps,
        "whole": maps,
        "list": st.lists(words, min_size=1, max_size=3),
        "set": st.lists(words, min_size=1, max_size=3, unique=True),
        "items": items.filter(bool).map(lambda found: [{"name": name, **rest} for name, rest in found.items()]),
    },
)


def thing(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}, **({"spec": spec} if spec else {})}


def applied(old: dict[str, Any], manager: str, spec: dict[str, Any], *, force: bool = True) -> dict[str, Any]:
    application = ApplyRequest(SCHEMA, FieldManager(APPLY, manager, "v1"), thing(copy.deepcopy(spec)), force=force)
    before = copy.deepcopy(old)
    new: dict[str, Any] = copy.deepcopy(application.edit(old) if old else application.applied)
    assert old == before, "what is there must not be changed"
    new["metadata"] = {"name": "t", "managedFields": application.entries(old, new, NOW)}
    return new


def owned(found: dict[str, Any], manager: str) -> field_set.Paths:
    entries = found["metadata"]["managedFields"]
    return frozenset().union(*(field_set.decode_fields(e["fieldsV1"]) for e in entries if e["manager"] == manager))


@given(specs)
def test_field_set_round_trips_through_fields_v1(spec: dict[str, Any]) -> None:
    for chosen in (field_set.applied_fields(thing(spec), NODE), field_set.present_fields(thing(spec), NODE)):
        assert field_set.decode_fields(field_set.encode_fields(chosen)) == chosen


@given(specs, specs)
def test_merge_applied_contains_all_applied_fields(one: dict[str, Any], other: dict[str, Any]) -> None:
    merged = merge_applied(thing(one), thing(other), NODE)
    assert field_set.present_fields(merged, NODE) >= field_set.present_fields(thing(other), NODE)
    assert not field_set.changed_fields(merged, merge_applied(merged, thing(other), NODE), NODE)
    both = field_set.present_fields(thing(one), NODE) | field_set.present_fields(thing(other), NODE)
    assert field_set.present_fields(merged, NODE) == both


@given(specs, specs, specs)
def test_applying_twice_changes_nothing_the_second_time(one: Any, other: Any, third: Any) -> None:
    found = applied(applied(applied({}, "one", one), "two", other), "one", third)
    assert applied(found, "one", third, force=False) == found


@given(specs, specs)
def test_apply_removes_fields_no_longer_applied_unless_shared(one: Any, other: Any) -> None:
    found = applied(applied({}, "one", one), "two", other)
    alone = applied(found, "one", {})
    assert field_set.applied_fields(alone, NODE) <= field_set.with_fields_above(owned(alone, "two")) | {("f:spec",)}
    assert owned(alone, "two") == field_set.applied_fields(thing(other), NODE)
    assert owned(alone, "one") == frozenset()


def test_apply_removes_list_item_with_fields_of_other_managers() -> None:
    found = applied({}, "one", {"items": [{"name": "x"}, {"name": "y"}]})
    new = {**thing({"items": [{"name": "x", "a": 1}, {"name": "y"}]}), "metadata": {"name": "t"}}
    new["metadata"]["managedFields"] = UpdateOwnership(SCHEMA, FieldManager(UPDATE, "editor", "v1")).entries(
        found, new, NOW
    )
    assert applied(new, "one", {"items": [{"name": "y"}]})["spec"] == {"items": [{"name": "y"}]}


@given(specs, specs)
def test_apply_conflicts_with_other_managers_unless_forced(one: Any, other: Any) -> None:
    found = applied({}, "one", one)
    both = merge_applied(thing(one), thing(other), NODE)
    theirs = (
        field_set.applied_fields(thing(one), NODE)
        & field_set.changed_fields(thing(one), both, NODE)
        & field_set.applied_fields(thing(other), NODE)
    )
    if theirs:
        with pytest.raises(ApiError) as refused:
            applied(found, "two", other, force=False)
        assert refused.value.code == 409
        assert {c["field"] for c in refused.value.details["causes"]} == {field_set.format_path(path) for path in theirs}
    else:
        assert applied(found, "two", other, force=False).get("spec", {}) == both.get("spec", {})


@given(specs.filter(bool), specs)
def test_update_takes_sole_ownership_of_changed_fields(one: Any, other: Any) -> None:
    found = applied({}, "one", one)
    new = {**thing(other), "metadata": {"name": "t"}}
    new["metadata"]["managedFields"] = UpdateOwnership(SCHEMA, FieldManager(UPDATE, "editor", "v1")).entries(
        found, new, NOW
    )
    fresh = field_set.changed_fields(found, new, NODE)
    assert owned(new, "editor") == fresh
    assert not owned(new, "one") & fresh
    assert owned(new, "one") <= field_set.present_fields(new, NODE)


def _is_list_key(path: field_set.Path) -> bool:
    """Whether a field is the key of its list item: without it, the item has another path."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1] == "f:name"


@given(specs, st.data())
def test_remove_fields_removes_exactly_those_fields(spec: dict[str, Any], data: st.DataObject) -> None:
    there = field_set.present_fields(thing(spec), NODE)
    removable = [path for path in sorted(there) if not _is_list_key(path)]
    gone = frozenset(data.draw(st.sets(st.sampled_from(removable), max_size=3)))
    below = {path for path in there if any(path[: len(top)] == top for top in gone)}
    assert field_set.present_fields(remove_fields(thing(spec), gone, NODE), NODE) == there - below


def test_managed_fields_start_with_the_first_apply() -> None:
    assert (
        UpdateOwnership(SCHEMA, FieldManager(UPDATE, "editor", "v1")).entries(thing({}), thing({"number": 1}), NOW)
        == []
    )


def test_kubectl_server_side_apply_takes_over_client_side_fields() -> None:
    last = '{"apiVersion":"v1","kind":"Thing","metadata":{"name":"t"},"spec":{"number":1}}'
    found = thing({"number": 1, "list": ["x"]})
    found["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    new = ApplyRequest(SCHEMA, FieldManager(APPLY, "kubectl", "v1"), thing({"number": 2}), force=False).edit(found)
    assert new["spec"]["number"] == 2
    for manager, spec in (("somebody", {"number": 2}), ("kubectl", {"list": ["y"]})):
        with pytest.raises(ApiError):
            ApplyRequest(SCHEMA, FieldManager(APPLY, manager, "v1"), thing(spec), force=False).edit(found)
