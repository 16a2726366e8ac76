"""JSON Merge Patch: RFC 7386."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.patches import PatchError, merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"k": "old"}, {"k": "new"}, {"k": "new"}),
        ({"k": "old"}, {"l": "new"}, {"k": "old", "l": "new"}),
        ({"k": "old"}, {"k": None}, {}),
        ({"k": "old", "l": 1}, {"k": None}, {"l": 1}),
        ({"k": ["old"]}, {"k": "new"}, {"k": "new"}),
        ({"k": "old"}, {"k": ["new"]}, {"k": ["new"]}),
        ({"k": {"l": "old"}}, {"k": {"l": "new", "m": None}}, {"k": {"l": "new"}}),
        ({"k": [{"l": 1}]}, {"k": [1]}, {"k": [1]}),
        ([1, 2], [3, None], [3, None]),
        ({"k": 1}, [3], [3]),
        ({"k": 1}, None, None),
        ({"k": None}, {"l": 1}, {"k": None, "l": 1}),
        ([1], {"k": 1, "l": None}, {"k": 1}),
        ({}, {"k": {"l": {"m": None}}}, {"k": {"l": {}}}),
    ],
)
def test_examples(document: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(document, patch) == expected


SCALARS = st.one_of(st.booleans(), st.integers(), st.text(max_size=2))
WITHOUT_NULL = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)),
    max_leaves=15,
)
PATCHES = st.recursive(
    st.one_of(st.none(), SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)),
    max_leaves=15,
)


def difference(old: Any, new: Any) -> Any:
    """The merge patch that leads from one to the other, if there is no null in the other."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {key: difference(old.get(key), item) for key, item in new.items() if key not in old or old[key] != item}
    return {**dict.fromkeys(old.keys() - new.keys()), **changed}


@given(WITHOUT_NULL, WITHOUT_NULL)
def test_a_difference_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert merge_patch(old, difference(old, new)) == new


@given(WITHOUT_NULL, PATCHES)
def test_merge_patch_is_idempotent(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(st.dictionaries(st.sampled_from("abcd"), WITHOUT_NULL))
def test_an_empty_patch_and_a_document_of_its_own(document: dict[str, Any]) -> None:
    assert merge_patch(document, {}) == document
    assert merge_patch({}, document) == document


@given(PATCHES, PATCHES)
def test_merge_patch_does_not_modify_its_inputs(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    result = merge_patch(document, patch)
    _spoil(result)
    assert (document, patch) == before


def _spoil(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _spoil(item)
    if isinstance(value, dict | list):
        value.clear()


def test_a_patch_can_only_be_so_deep() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(PatchError, match="the patch nests more than 200 levels"):
        merge_patch({}, deep)
