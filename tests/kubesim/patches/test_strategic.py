"""Strategic merge patch (the results are those of kube-apiserver 1.36 for a PodTemplate)."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.patches import PatchError, PatchFault, strategic_merge
from kubesim.schema import Schema

TEXT = {"type": "string"}


def shape(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def merged_list(items: dict[str, Any], key: str = "", strategy: str = "merge") -> dict[str, Any]:
    found = {"type": "array", "items": items, "x-kubernetes-patch-strategy": strategy}
    return {**found, "x-kubernetes-patch-merge-key": key} if key else found


CONTAINER = shape(
    name=TEXT,
    image=TEXT,
    command={"type": "array", "items": TEXT},
    env=merged_list(shape(name=TEXT, value=TEXT), "name"),
)
SCHEMA = Schema(
    shape(
        spec=shape(
            containers=merged_list(CONTAINER, "name"),
            secrets=merged_list(shape(name=TEXT), "name"),
            volumes=merged_list(shape(name=TEXT, empty=shape(), path=TEXT), "name", "merge,retainKeys"),
            tolerations={"type": "array", "items": shape(key=TEXT)},
            labels={"type": "object", "additionalProperties": TEXT},
            whole={"type": "object", "additionalProperties": TEXT, "x-kubernetes-patch-strategy": "replace"},
        )
    )
)
A = {"name": "a", "image": "i1", "command": ["x"], "env": [{"name": "E1", "value": "1"}, {"name": "E2", "value": "2"}]}
B = {"name": "b", "image": "i2"}


def spec(old: dict[str, Any], patch: dict[str, Any]) -> Any:
    return strategic_merge({"spec": old}, {"spec": patch}, SCHEMA)["spec"]


def containers(*patch: dict[str, Any], **others: Any) -> Any:
    return spec({"containers": [A, B]}, {"containers": list(patch), **others})["containers"]


def names(found: list[dict[str, Any]]) -> str:
    return "".join(item["name"] for item in found)


def test_items_merge_by_key() -> None:
    assert containers({"name": "a", "image": "new"}) == [{**A, "image": "new"}, B]
    assert containers({"name": "a", "command": ["z"]}) == [{**A, "command": ["z"]}, B]
    assert containers({"name": "b", "image": None}) == [A, {"name": "b"}]
    assert containers() == [A, B]
    assert containers({"name": "a", "env": [{"name": "E1", "value": "9"}, {"name": "E3", "value": "3"}]})[0]["env"] == [
        {"name": "E1", "value": "9"},
        {"name": "E3", "value": "3"},
        {"name": "E2", "value": "2"},
    ]


def test_new_items_go_before_those_only_the_document_has() -> None:
    assert names(containers({"name": "c"})) == "cab"
    assert names(containers({"name": "a"}, {"name": "c"})) == "acb"
    assert names(containers({"name": "b"}, {"name": "c"})) == "abc"
    assert names(containers({"name": "b"}, {"name": "a"})) == "ba"


def test_delete_and_replace() -> None:
    assert containers({"name": "a", "$patch": "delete"}) == [B]
    assert containers({"name": "z", "$patch": "delete"}) == [A, B]
    assert containers({"$patch": "replace"}, {"name": "z"}) == [{"name": "z"}]
    assert containers({"name": "z"}, {"$patch": "replace"}) == [{"name": "z"}]
    assert containers({"name": "a", "$patch": "merge", "image": "m"}) == [{**A, "image": "m"}, B]
    # An item with the directive is a directive and nothing else.
    assert containers({"name": "a", "$patch": "replace", "image": "r"}) == []
    labels = {"labels": {"a": "1", "b": "2"}}
    assert spec(labels, {"labels": {"a": None, "c": "3"}}) == {"labels": {"b": "2", "c": "3"}}
    assert spec(labels, {"labels": {"$patch": "replace", "c": "3"}}) == {"labels": {"c": "3"}}
    assert spec(labels, {"labels": {"$patch": "delete"}}) == {"labels": {}}
    assert spec(labels, {"labels": None}) == {}
    assert spec({"whole": {"a": "1"}}, {"whole": {"b": "2"}}) == {"whole": {"b": "2"}}


def test_lists_without_a_strategy_are_replaced() -> None:
    patch = {"tolerations": [{"key": "q", "gone": None}]}
    assert spec({"tolerations": [{"key": "k"}]}, patch) == {"tolerations": [{"key": "q"}]}


def test_retain_keys() -> None:
    old = {"volumes": [{"name": "v", "empty": {}}, {"name": "w", "empty": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "path"], "path": "/x"}]}
    assert spec(old, patch) == {"volumes": [{"name": "v", "path": "/x"}, {"name": "w", "empty": {}}]}
    assert spec({"labels": {"a": "1"}}, {"labels": {"$retainKeys": ["b"], "b": "2"}}) == {"labels": {"b": "2"}}


def test_order() -> None:
    def order(text: str, *patch: dict[str, Any]) -> str:
        return names(containers(*patch, **{"$setElementOrder/containers": [{"name": name} for name in text]}))

    assert order("ba") == "ba"
    assert order("ba", {"name": "a", "image": "n"}) == "ba"
    assert order("cba", {"name": "c"}) == "cba"
    assert order("ca", {"name": "c"}) == "cab"
    assert order("ac", {"name": "c"}, {"name": "b", "$patch": "delete"}) == "ac"
    assert spec({}, {"$setElementOrder/containers": [{"name": "q"}]}) == {}


def test_lists_of_values() -> None:
    def finalizers(**patch: Any) -> list[str]:
        document = {"metadata": {"name": "n", "finalizers": ["1", "2"]}}
        found = strategic_merge(document, {"metadata": patch}, SCHEMA)["metadata"]["finalizers"]
        assert isinstance(found, list)
        return found

    assert finalizers(finalizers=["3", "1"]) == ["3", "1", "2"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["1", "9"]}) == ["2"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["1"]}, finalizers=["3"]) == ["3", "2"]
    assert finalizers(**{"$setElementOrder/finalizers": ["2", "1"]}) == ["2", "1"]
    assert finalizers(**{"$setElementOrder/finalizers": ["2", "3", "1"]}, finalizers=["3"]) == ["2", "3", "1"]


def test_owners_merge_by_uid() -> None:
    document = {"metadata": {"ownerReferences": [{"uid": "1", "name": "n"}]}}
    patch = {"metadata": {"ownerReferences": [{"uid": "1", "controller": True}, {"uid": "2"}]}}
    assert strategic_merge(document, patch, SCHEMA)["metadata"]["ownerReferences"] == [
        {"uid": "1", "name": "n", "controller": True},
        {"uid": "2"},
    ]


@pytest.mark.parametrize(
    ("patch", "fault", "words"),
    [
        ([], PatchFault.MALFORMED, "json: cannot unmarshal array into Go value of type map"),
        ({"$patch": "foo"}, PatchFault.MALFORMED, "unknown patch type: foo"),
        ({"spec": {"labels": {"$retainKeys": "c"}}}, PatchFault.MALFORMED, "invalid patch format of retainKeys"),
        ({"spec": {"labels": {"$retainKeys": ["c"], "d": "1"}}}, PatchFault.MALFORMED, "invalid patch format"),
        ({"spec": {"containers": [{"image": "x"}]}}, PatchFault.UNFIT, "does not contain declared merge key: name"),
        ({"spec": {"containers": [5]}}, PatchFault.UNFIT, "list element types are not identical"),
        ({"spec": {"containers": {"a": 1}}}, PatchFault.UNFIT, "cannot restore slice from map"),
        ({"spec": {"$setElementOrder/containers": 5}}, PatchFault.MALFORMED, "is not a list"),
        ({"spec": {"$setElementOrder/containers": [5]}}, PatchFault.MALFORMED, "must contain the merge key name"),
        ({"spec": {"$setElementOrder/foo": []}}, PatchFault.UNFIT, "there is no field foo"),
        ({"spec": {"$deleteFromPrimitiveList/a": 5}}, PatchFault.MALFORMED, "is not a list"),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}},
            PatchFault.UNFIT,
            "doesn't match",
        ),
    ],
)
def test_invalid_strategic_merge_patch_is_refused(patch: Any, fault: PatchFault, words: str) -> None:
    with pytest.raises(PatchError) as refusal:
        strategic_merge({"spec": {"containers": [A, B]}}, patch, SCHEMA)
    assert refusal.value.fault is fault
    assert words in str(refusal.value)


ITEMS = st.dictionaries(st.sampled_from("pqrst"), st.dictionaries(st.sampled_from(["image"]), st.sampled_from("xyz")))


def as_list(items: dict[str, dict[str, str]], order: list[str]) -> list[dict[str, str]]:
    return [{"name": name, **items[name]} for name in order]


@given(ITEMS, ITEMS, st.randoms(use_true_random=False))
def test_a_difference_leads_from_one_to_the_other(old: Any, new: Any, chance: Any) -> None:
    before, after = sorted(old), sorted(new)
    chance.shuffle(before)
    chance.shuffle(after)
    changes = [
        {"name": name, **dict.fromkeys(old.get(name, {}).keys() - new[name].keys()), **new[name]}
        for name in after
        if old.get(name) != new[name]
    ]
    gone = [{"name": name, "$patch": "delete"} for name in before if name not in new]
    patch = {"containers": changes + gone, "$setElementOrder/containers": [{"name": name} for name in after]}
    found = spec({"containers": as_list(old, before)}, patch)
    assert found["containers"] == as_list(new, after)


KEYS = st.sampled_from(
    ["spec", "containers", "secrets", "labels", "name", "image", "metadata", "finalizers", "$patch", "$retainKeys",
     "$setElementOrder/containers", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers", "$"]
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b", "delete", "replace", "merge"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, JSON, max_size=4), JSON)
@settings(max_examples=250)
def test_nothing_else_is_raised_and_the_inputs_stay(document: dict[str, Any], patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    try:
        result: Any = strategic_merge(document, patch, SCHEMA)
    except PatchError:
        result = None
    _spoil(result)
    assert (document, patch) == before


def _spoil(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _spoil(item)
    if isinstance(value, dict | list):
        value.clear()
