"""Sums that do not drift, and curves that halt."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.fluid_target.polyline import (
    CurvePoint,
    Curves,
    add_up,
    crossings,
    end_to_end,
    leaf_curves,
    locate,
    place_between,
    running_total,
    way_between,
)


@given(st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=90), min_size=1, max_size=5))
def test_running_totals_start_anew_with_each_run(runs: list[list[int]]) -> None:
    label = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    rows = np.array([[float(v), 2.0 * v] for run in runs for v in run])
    want = [total for run in runs for total in np.cumsum(run).tolist()]
    assert running_total(rows, label).tolist() == [[total, 2 * total] for total in want]


def test_running_totals_do_not_drift() -> None:
    # A plain cumsum of 0.1 is off by 2e-8 after 100,000 terms, always to the same side.
    count = 100_000
    total = running_total(np.full((count, 1), 0.1), np.zeros(count, dtype=np.int64))
    assert total[-1, 0] == pytest.approx(math.fsum([0.1] * count), rel=1e-15, abs=0)


def test_leaves_of_one_parent() -> None:
    # x (weight 2) from 0 to 0.4, y (weight 1) from 0.1 to 0.3: breakpoints at 0, 0.1, 0.2 and 0.3.
    # Given at 0.1: x 0.2. At 0.2: x 0.4, y 0.1. At 0.3: y 0.2. x is half memory.
    curves = leaf_curves(
        np.array([7, 7]),
        np.array([2.0, 1.0]),
        np.array([0.0, 0.1]),
        np.array([0.4, 0.3]),
        np.array([[1.0, 0.5, 1.0], [1.0, 0.0, 1.0]]),
    )
    assert curves.of.tolist() == [7] * 4
    assert curves.place.level == pytest.approx([0, 0.1, 0.2, 0.3])
    assert curves.rows == pytest.approx(np.array([[0, 0, 0], [0.2, 0.1, 0.2], [0.5, 0.2, 0.5], [0.6, 0.2, 0.6]]))


def test_curves_that_halt_at_one_level_go_through_their_slivers_together() -> None:
    # a rises to 0.3, halts there while 0.2 are given, and rises to 0.5; b halts at 0.3 for 0.1; c never halts.
    # Sum at (0.3, 0): 0.3 each. At (0.3, 0.1): a and b have 0.1 more. At (0.3, 0.2): b is at its end and waits.
    # Levels differ by rounding, which must not matter.
    level = np.array([0, 0.3, 0.3, 0.5, 0, 0.3 + 1e-16, 0.3 + 1e-16, 0.5, 0, 0.5])
    given_ = np.array([0, 0.3, 0.5, 0.7, 0, 0.3, 0.4, 0.6, 0, 0.5])
    curve = np.repeat([0, 1, 2], [4, 4, 2])
    total, at = add_up(curve, np.zeros(10, dtype=np.int64), level, np.stack([given_, given_], axis=1))
    assert total.place.level == pytest.approx([0, 0.3, 0.3, 0.3, 0.5])
    assert total.place.sliver == pytest.approx([0, 0, 0.1, 0.2, 0])
    assert total.rows[:, 0] == pytest.approx([0, 0.9, 1.1, 1.2, 1.8])
    assert at.level[2] == at.level[6]


def test_a_curve_that_has_ended_keeps_what_it_gave() -> None:
    # In the first group a ends at 0.2 with 0.2 and b goes on to 0.5; the second group begins higher up, at 0.9.
    level = np.array([0, 0.2, 0, 0.5, 0.9, 1.0, 0.9, 1.0])
    given_ = np.array([0, 0.2, 0, 0.5, 0, 0.1, 0, 0.3])
    curve, group = np.repeat([0, 1, 2, 3], 2), np.repeat([0, 1], 4)
    total, _ = add_up(curve, group, level, np.stack([given_, given_], axis=1))
    assert total.of.tolist() == [0, 0, 0, 1, 1]
    assert total.rows[:, 0] == pytest.approx([0, 0.4, 0.7, 0, 0.4])


def test_a_curve_that_has_not_begun_gave_nothing() -> None:
    # a goes from 0 to 0.5, b begins at 0.3.
    level, given_ = np.array([0, 0.5, 0.3, 0.5]), np.array([0, 0.5, 0, 0.1])
    rows = np.stack([given_, given_], axis=1)
    total, _ = add_up(np.array([0, 0, 1, 1]), np.zeros(4, dtype=np.int64), level, rows)
    assert total.place.level == pytest.approx([0, 0.3, 0.5])
    assert total.rows[:, 0] == pytest.approx([0, 0.3, 0.6])


def test_the_largest_column_changes_between_points() -> None:
    # From (3, 0, 0) to (3, 4, 8): the third passes the first at 3/8; the second passes it at 3/4, below the third.
    where, way = crossings(np.zeros(2, dtype=np.int64), np.array([[3.0, 0.0, 0.0], [3.0, 4.0, 8.0]]))
    assert where.tolist() == [0]
    assert way.tolist() == [3 / 8]


def test_crossings_ignore_boundary_between_curves() -> None:
    where, _ = crossings(np.array([0, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert len(where) == 0


def test_places_and_ways_are_each_others_inverse() -> None:
    # Halted from sliver 0.1 to 0.3; rising from 0.5 to 0.7, where a sliver means nothing; and already at the end.
    a = CurvePoint(np.array([0.5, 0.5, 0.5]), np.array([0.1, 0.3, 0.3]))
    b = CurvePoint(np.array([0.5, 0.7, 0.5]), np.array([0.3, 0.0, 0.3]))
    there = place_between(a, b, np.array([0.5, 0.25, 0.0]))
    assert there.level == pytest.approx([0.5, 0.55, 0.5])
    assert there.sliver == pytest.approx([0.2, 0.0, 0.3])
    assert way_between(there, a, b) == pytest.approx([0.5, 0.25, 0.0])


def test_next_to_nothing_of_the_way_is_no_step_back() -> None:
    # From (0.5, 0.3), the end of a halt, up: so near that the level is the same number, the halt is still behind.
    a, b = CurvePoint(np.array([0.5]), np.array([0.3])), CurvePoint(np.array([0.7]), np.array([0.0]))
    there = place_between(a, b, np.array([1e-18]))
    assert (there.level[0], there.sliver[0]) == (0.5, 0.3)


def test_a_curve_that_has_not_begun_does_not_follow_the_slivers_of_others() -> None:
    # It begins at 0.5, where it halts. Others halt at 0.2, and are half way: it is still at its start.
    points = CurvePoint(np.array([0.5, 0.5, 0.8]), np.array([0.0, 0.1, 0.0]))
    a, _, way = locate(CurvePoint(np.array([0.2]), np.array([0.05])), np.array([0]), points)
    assert (a.tolist(), way.tolist()) == ([0], [0.0])
    a, _, way = locate(CurvePoint(np.array([0.5]), np.array([0.05])), np.array([0]), points)
    assert (a.tolist(), way.tolist()) == ([0], [0.5])


def test_curves_one_after_another_go_on_from_each_others_ends() -> None:
    # Two of owner 0 that give 3 and 2, one of owner 1.
    place = CurvePoint(np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0]), np.zeros(6))
    curves = Curves(np.array([0, 0, 1, 1, 2, 2]), place, np.array([[0.0], [3.0], [0.0], [2.0], [0.0], [7.0]]))
    assert end_to_end(curves, np.array([0, 0, 0, 0, 1, 1])).ravel().tolist() == [0, 3, 3, 5, 0, 7]
