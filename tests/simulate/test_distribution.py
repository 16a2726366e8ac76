"""Distributions: exact sums, quantiles within 1 %."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pumice.simulate.distribution import Distribution


def of(numbers: list[int]) -> Distribution:
    made = Distribution()
    for number in numbers:
        made.add(number)
    return made


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=50), st.floats(0.01, 1))
def test_quantile_is_within_one_percent_of_the_exact_one(numbers: list[int], part: float) -> None:
    exact = next(n for i, n in enumerate(sorted(numbers), 1) if i >= part * len(numbers))
    found = of(numbers).quantile(part)
    assert found is not None and abs(found - exact) <= exact / 100


@given(st.lists(st.integers(0, 10**13)), st.lists(st.integers(0, 10**13)))
def test_merged_distribution_is_that_of_all_numbers(some: list[int], others: list[int]) -> None:
    merged, whole = of(some).merge([of(others)]), of(some + others)
    assert (merged.count, merged.total, merged.most, merged.bins) == (whole.count, whole.total, whole.most, whole.bins)


def test_empty_distribution_has_no_quantile() -> None:
    assert (Distribution().mean, Distribution().quantile(0.5)) == (None, None)
