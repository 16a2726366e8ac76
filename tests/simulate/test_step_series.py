"""Time series: integrals survive that intervals double."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pumice.simulate.step_series import POINTS, StepSeries

STEPS = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 100)), min_size=1, max_size=30)


@given(STEPS, st.integers(1, 50))
def test_integral_and_number_of_points_hold_for_any_steps(steps: list[tuple[int, int]], width: int) -> None:
    series, now = StepSeries(width), 0
    for length, level in steps:
        series.add(now, now + length, level)
        now += length
    assert sum(series.sums) == sum(length * level for length, level in steps)
    assert len(series.means(now)) == -(-now // series.width) <= POINTS


def test_mean_of_the_last_interval_counts_only_its_part() -> None:
    series = StepSeries(10)
    series.add(0, 25, 4)
    assert series.means(25) == [4, 4, 4]
