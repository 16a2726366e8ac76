"""JSON Patch: RFC 6902, and where the real server differs from it (checked against kube-apiserver 1.36)."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.patches import MOST_OPERATIONS, PatchError, PatchFault, json_patch

DOCUMENT = {"a": 1, "b": {"c": [1, 2, 3], "x/y": "s", "m~n": "t", "": "e"}}


def patched(*operations: dict[str, Any]) -> Any:
    return json_patch(DOCUMENT, list(operations))


@pytest.mark.parametrize(
    ("operation", "pointer", "value"),
    [
        ({"op": "add", "path": "/z", "value": [1]}, ["z"], [1]),
        ({"op": "add", "path": "/a", "value": 2}, ["a"], 2),
        ({"op": "add", "path": "/b/c/1", "value": 9}, ["b", "c"], [1, 9, 2, 3]),
        ({"op": "add", "path": "/b/c/3", "value": 9}, ["b", "c"], [1, 2, 3, 9]),
        ({"op": "add", "path": "/b/c/-", "value": 9}, ["b", "c"], [1, 2, 3, 9]),
        ({"op": "add", "path": "/b/c/-1", "value": 9}, ["b", "c"], [1, 2, 3, 9]),
        ({"op": "add", "path": "/z"}, ["z"], None),
        ({"op": "remove", "path": "/b/c/0"}, ["b", "c"], [2, 3]),
        ({"op": "remove", "path": "/b/c/-1"}, ["b", "c"], [1, 2]),
        ({"op": "replace", "path": "/b/c/0", "value": 9}, ["b", "c"], [9, 2, 3]),
        ({"op": "replace", "path": "/z", "value": 9}, ["z"], 9),
        ({"op": "replace", "path": "/b/x~1y", "value": 9}, ["b", "x/y"], 9),
        ({"op": "replace", "path": "/b/m~0n", "value": 9}, ["b", "m~n"], 9),
        ({"op": "replace", "path": "/b/", "value": 9}, ["b", ""], 9),
        ({"op": "add", "path": "/b/~01", "value": 9}, ["b", "~1"], 9),  # in this order, not a slash
        ({"op": "move", "from": "/b/c", "path": "/z"}, ["z"], [1, 2, 3]),
        ({"op": "move", "from": "/b/c/0", "path": "/b/c/2"}, ["b", "c"], [2, 3, 1]),
        ({"op": "move", "from": "/a", "path": "/a"}, ["a"], 1),
        ({"op": "copy", "from": "/b/c", "path": "/b/c/0"}, ["b", "c"], [[1, 2, 3], 1, 2, 3]),
        ({"op": "copy", "from": "/nothing", "path": "/z"}, ["z"], None),
        ({"op": "test", "path": "/b/c", "value": [1, 2, 3]}, ["a"], 1),
        ({"op": "test", "path": "/nothing", "value": None}, ["a"], 1),
        ({"op": "test", "path": "/a", "value": 1.0}, ["a"], 1),
        ({"op": "add", "path": "/z", "value": 1, "unknown": 2}, ["z"], 1),
    ],
)
def test_an_operation(operation: dict[str, Any], pointer: list[str], value: Any) -> None:
    result = patched(operation)
    for step in pointer:
        result = result[step]
    assert result == value


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({}, "needs a path"),
        ({"op": "add", "value": 1}, "needs a path"),
        ({"op": "zap", "path": "/a"}, "unexpected operation 'zap'"),
        ({"path": "/a"}, "unexpected operation None"),
        ({"op": "add", "path": "a", "value": 1}, "does not begin with a slash"),
        ({"op": "add", "path": "/z/y", "value": 1}, "no object or list around '/z/y'"),
        ({"op": "add", "path": "/a/y", "value": 1}, "no object or list around '/a/y'"),
        ({"op": "add", "path": "/b/c/4", "value": 1}, "index 4 in '/b/c/4' is out of bounds"),
        ({"op": "add", "path": "/b/c/x", "value": 1}, "'x' in '/b/c/x' is not an index"),
        ({"op": "remove", "path": "/z"}, "nothing at '/z'"),
        ({"op": "remove", "path": "/b/c/3"}, "out of bounds"),
        ({"op": "remove", "path": "/b/c/-"}, "not an index"),
        ({"op": "remove", "path": ""}, "the whole object cannot be removed"),
        ({"op": "replace", "path": "/b/c/3", "value": 1}, "out of bounds"),
        ({"op": "test", "path": "/a", "value": 2}, "testing value '/a' failed"),
        ({"op": "test", "path": "/a", "value": True}, "testing value '/a' failed"),
        ({"op": "test", "path": "/b/c/7", "value": None}, "out of bounds"),
        ({"op": "test", "path": "/z/y", "value": None}, "no object or list"),
        ({"op": "move", "path": "/a"}, "move needs a from"),
        ({"op": "move", "from": "/z", "path": "/a"}, "nothing at '/z'"),
        ({"op": "move", "from": "/b", "path": "/b/c"}, "cannot be moved into itself"),
    ],
)
def test_json_patch_that_does_not_apply_is_refused(operation: dict[str, Any], words: str) -> None:
    with pytest.raises(PatchError, match=words) as refusal:
        patched(operation)
    assert refusal.value.fault is PatchFault.UNFIT


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({}, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([5], "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": "add", "path": 5}],
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_malformed_json_patch_is_refused(operations: Any, message: str) -> None:
    with pytest.raises(PatchError) as refusal:
        json_patch(DOCUMENT, operations)
    assert refusal.value.fault is PatchFault.MALFORMED
    assert str(refusal.value) == message


def test_operations_see_what_came_before_and_all_or_none_count() -> None:
    assert patched({"op": "add", "path": "/z", "value": {}}, {"op": "add", "path": "/z/y", "value": 1})["z"] == {"y": 1}
    with pytest.raises(PatchError):
        patched({"op": "remove", "path": "/a"}, {"op": "test", "path": "/a", "value": 1})


def test_the_whole_document_can_be_replaced() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}]) == {"b": 2}
    assert json_patch({"a": 1}, None) == {"a": 1}


def test_limits() -> None:
    with pytest.raises(PatchError, match="maximum operations in a JSON patch is 10000, got 10001") as refusal:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * (MOST_OPERATIONS + 1))
    assert refusal.value.fault is PatchFault.TOO_LARGE
    # 2^30 copies of a text, if nobody counted.
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(PatchError, match="the copies would add"):
        json_patch({"a": ["x" * 100]}, doubling)
    nesting = [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 2000)]
    with pytest.raises(PatchError, match="nests more than 200 levels"):
        json_patch({}, nesting)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=12,
)
STEPS = st.lists(st.sampled_from(["/a", "/b", "/0", "/1", "/-", "/-1", "/~0"]), max_size=3)
POINTERS = st.one_of(STEPS.map("".join), st.text(max_size=4))
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
    optional={"from": POINTERS, "value": JSON},
)


@given(JSON, st.one_of(JSON, st.lists(OPERATIONS, max_size=6)))
@settings(max_examples=250)
def test_nothing_else_is_raised_and_the_inputs_stay(document: Any, operations: Any) -> None:
    before = copy.deepcopy((document, operations))
    try:
        result = json_patch(document, operations)
    except PatchError:
        result = None
    assert (document, operations) == before
    if isinstance(result, dict):
        result.clear()
        assert (document, operations) == before


@given(JSON, JSON)
def test_a_patch_that_tests_and_replaces(document: Any, other: Any) -> None:
    swap = [{"op": "test", "path": "", "value": document}, {"op": "replace", "path": "", "value": other}]
    assert json_patch(document, swap) == other
