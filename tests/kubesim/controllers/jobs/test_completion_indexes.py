from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.controllers.jobs.completion_indexes import format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([7, 5, 4, 3, 0, 1], "0,1,3-5,7")],
)
def test_completion_indexes_are_written_as_ranges(indexes, text):
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 100) == set(indexes)


def test_malformed_completion_indexes_are_ignored():
    assert parse_indexes("0,x,2-,3-5,-1", 5) == {0, 3, 4}


@given(st.sets(st.integers(0, 300)), st.integers(0, 300))
def test_completion_indexes_round_trip(indexes, below):
    assert parse_indexes(format_indexes(indexes), 301) == indexes
    assert parse_indexes(format_indexes(indexes), below) == {index for index in indexes if index < below}
