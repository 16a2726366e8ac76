"""Admission notes when the weights of a path were last written: of contradicting ones the latest write counts."""

from __future__ import annotations

import pytest

from pumice.admission import ClusterView
from pumice.admission.request import annotations_of
from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN
from tests.support.admitted import Object, put, queue, world

NOON = 1_800_000_000_000_000


def annotated(name: str, weights: str, **more: str) -> Object:
    return queue(name, annotations={HIERARCHY: f"root/eng/{name}", HIERARCHY_WEIGHTS: weights, **more})


def written(around: ClusterView, found: Object, moment: int) -> str:
    """Store a queue as an API server would that gets it at a moment; the note it then bears."""
    verdict = put(around, found, moment=moment)
    assert verdict.message == "" and verdict.object is not None
    return str(annotations_of(verdict.object).get(WEIGHTS_WRITTEN, ""))


def weight_of_eng(around: ClusterView) -> int:
    return int(around.tree._layout.placements["root", "eng"].weight)


def test_the_latest_write_counts_not_the_youngest_queue() -> None:
    around = world()
    written(around, annotated("old", "1/2/1"), NOON)
    written(around, annotated("young", "1/3/1"), NOON + 1)
    assert weight_of_eng(around) == 3
    written(around, annotated("old", "1/4/1"), NOON + 2)
    assert weight_of_eng(around) == 4


def test_a_write_that_leaves_the_weights_alone_is_none() -> None:
    around = world()
    first = written(around, annotated("old", "1/2/1"), NOON)
    assert first == "2027-01-15T08:00:00.000000Z"
    written(around, annotated("young", "1/3/1"), NOON + 1)
    other = annotated("old", "1/2/1")
    other["spec"]["priority"] = 5
    assert written(around, other, NOON + 2) == first
    assert weight_of_eng(around) == 3


def test_writes_are_ordered_even_where_the_clock_was_set_back() -> None:
    around = world()
    written(around, annotated("old", "1/2/1"), NOON)
    written(around, annotated("young", "1/3/1"), NOON - 5_000_000)
    assert weight_of_eng(around) == 3


@pytest.mark.parametrize("forged", ["9999-12-31T23:59:59.999999Z", "2030-01-01T00:00:00Z", "soon", ""])
def test_weights_written_annotation_from_user_is_ignored(forged: str) -> None:
    around = world()
    assert written(around, annotated("one", "1/2/1", **{WEIGHTS_WRITTEN: forged}), NOON).startswith("2027-01-15")
    assert written(around, queue("plain", annotations={WEIGHTS_WRITTEN: forged}), NOON) == ""
    put(around, annotated("two", "1/3/1"), moment=NOON + 1)
    assert weight_of_eng(around) == 3


def test_weights_that_are_taken_out_are_forgotten() -> None:
    around = world()
    written(around, annotated("one", "1/2/1"), NOON)
    bare = queue("one", annotations={HIERARCHY: "root/eng/one", WEIGHTS_WRITTEN: "2027-01-15T08:00:00.000000Z"})
    assert written(around, bare, NOON + 1) == ""


def test_a_note_that_somebody_spoiled_before_admission_saw_it_counts_as_none() -> None:
    around = world(annotated("spoiled", "1/2/1", **{WEIGHTS_WRITTEN: "9999-12-31T23:59:59.999999Z"}))
    written(around, annotated("one", "1/3/1"), NOON)
    assert weight_of_eng(around) == 3
