"""The notation of job arrays, and which jobs may have one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_arrays import ARRAY, LARGEST_INDEX, ArrayError, array_fits_the_task, parse_array
from pumice.admission.request import CREATE, JOBS, UPDATE, Request


@pytest.mark.parametrize(
    ("text", "indexes", "limit"),
    [
        ("1-4", (1, 2, 3, 4), 0),
        ("0-9:3%2", (0, 3, 6, 9), 2),
        ("1-9:2,20", (1, 3, 5, 7, 9, 20), 0),
        ("7", (7,), 0),
        ("5,1-3,2", (1, 2, 3, 5), 0),  # ascending, each once
        ("1, 3 %5", (1, 3), 5),
    ],
)
def test_array_notation_is_that_of_sbatch(text: str, indexes: tuple[int, ...], limit: int) -> None:
    found = parse_array(text)
    assert (found.indexes, found.limit) == (indexes, limit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "indexes such as"),
        ("a", "indexes such as"),
        ("1-", "indexes such as"),
        ("1,,2", "indexes such as"),
        ("-1", "indexes such as"),
        ("1-3%", "must follow %"),
        ("1-3%0", "must follow %"),
        ("1-3%%2", "must follow %"),
        ("3-1", "contains no index"),
        ("1-3:0", "contains no index"),
        ("0-10000", "at most 10,000 pods"),
        (str(LARGEST_INDEX + 1), "an index is at most"),
    ],
)
def test_what_is_no_array_is_rejected_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ArrayError, match=words):
        parse_array(text)


@given(st.sets(st.integers(0, LARGEST_INDEX), min_size=1, max_size=50), st.integers(1, 99))
def test_any_list_of_indexes_can_be_written(indexes: set[int], limit: int) -> None:
    found = parse_array(",".join(map(str, indexes)) + f"%{limit}")
    assert (found.indexes, found.limit) == (tuple(sorted(indexes)), limit)


def job(array: str | None, *replicas: int, least: int = 1) -> dict[str, Any]:
    annotations = {} if array is None else {ARRAY: array}
    tasks = [{"name": f"t{i}", "replicas": number} for i, number in enumerate(replicas)]
    return {"metadata": {"name": "j", "annotations": annotations}, "spec": {"tasks": tasks, "minAvailable": least}}


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (job("1-3", 3), None, ""),
        (job(None, 3), None, ""),
        (job("1-3", 4), None, "each of its 3 indexes, but the tasks have 4 replicas"),
        (job("1-3", 2, 1), None, "but the tasks have 2, 1 replicas"),
        (job("x", 3), None, "indexes such as"),
        (job("1-3%2", 3, least=3), None, "spec.minAvailable pods could never be active together"),
        (job("1-3", 3), job("1-3", 3), ""),
        (job("2-4", 3), job("1-3", 3), "cannot be changed"),
        (job(None, 3), job("1-3", 3), "cannot be changed"),
    ],
)
def test_an_array_has_a_replica_for_each_index(new: dict[str, Any], old: dict[str, Any] | None, words: str) -> None:
    request = Request(UPDATE if old else CREATE, JOBS, new, old)
    said = [refusal.message for refusal in array_fits_the_task(request, ClusterView())]
    assert (len(said), words in "".join(said)) == (bool(words), True)
