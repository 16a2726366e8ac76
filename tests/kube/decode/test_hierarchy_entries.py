"""Misspelt keys at any depth of ``spec.hierarchy``, and entries that nest without end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.field_error import FieldError
from pumice.kube.decode.hierarchy_entries import NESTED_LEVELS, check_entries, entry_errors

Entry = dict[str, Any]


def nested(levels: int, **lowest: Any) -> list[Entry]:
    """So many levels of entries, the last with these keys as well."""
    entries: list[Entry] = [{"name": "lowest", **lowest}]
    for level in range(levels - 1, 0, -1):
        entries = [{"name": "beside"}, {"name": f"level{level}", "hierarchy": entries}]
    return entries


@given(levels=st.integers(1, NESTED_LEVELS), key=st.text(max_size=20))
def test_a_key_that_nobody_reads_is_found_at_every_depth(levels: int, key: str) -> None:
    found = [error.field for error in entry_errors(nested(levels, **{key: 1}))]
    if key in ("name", "parameters", "hierarchy"):
        assert found == []
    else:
        # Below the first level every list has the entry beside in front.
        path = "spec.hierarchy" + "[1].hierarchy" * (levels - 1) + "[0]."
        assert len(found) == 1 and found[0].startswith(path)
        assert found[0].isprintable()


def test_the_message_names_the_path_and_the_keys_there_are() -> None:
    with pytest.raises(FieldError) as caught:
        check_entries(nested(2, paramters=[{"name": "weight", "value": 9}]))
    assert str(caught.value) == (
        "spec.hierarchy[1].hierarchy[0].paramters: unknown field of a hierarchy entry; "
        "known fields: name, parameters, hierarchy"
    )


def test_parameters_are_looked_at_too_and_everything_is_said_in_order() -> None:
    entries = [{"name": "a", "weight": 1, "parameters": [{"name": "weight", "vlaue": 2}]}, {"nmae": "b"}]
    assert [error.field for error in entry_errors(entries)] == [
        "spec.hierarchy[0].weight",
        "spec.hierarchy[0].parameters[0].vlaue",
        "spec.hierarchy[1].nmae",
    ]


@pytest.mark.parametrize("odd", [None, 1, "x", {}, [1], [None], [{"name": "a", "parameters": 3, "hierarchy": "x"}]])
def test_types_are_for_others_to_judge(odd: object) -> None:
    assert list(entry_errors(odd)) == []


def test_nesting_without_end_is_refused_without_recursion() -> None:
    assert list(entry_errors(nested(NESTED_LEVELS))) == []
    for levels in (NESTED_LEVELS + 1, 5000):
        (error,) = entry_errors(nested(levels))
        assert str(error) == (
            "spec.hierarchy: Too deep: entries may nest at most 64 levels; move the rest to the "
            "spec.hierarchy of a queue further down"
        )
