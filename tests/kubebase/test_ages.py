"""Durations as kubectl prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.ages import age, at, duration, seconds

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 20 * MINUTE, "3h20m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 40 * DAY, "2y40d"),
        (8 * YEAR, "8y"),
        (100 * YEAR + 300 * DAY, "100y"),
    ],
)
def test_durations(length: float, text: str) -> None:
    assert duration(length) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**12))
def test_every_duration_has_a_short_text(length: float) -> None:
    assert 2 <= len(duration(length)) <= 9


def test_ages_of_a_table_refer_to_one_moment() -> None:
    # 2026-11-15T12:00:00Z is 90 s before the moment.
    now = seconds("2026-11-15T12:01:30Z")
    with at(now):
        assert age("2026-11-15T12:00:00Z") == "90s"
        assert age("2026-11-15T13:00:00.500000+01:00") == "89s"
        assert age("2026-11-15T13:00:00Z") == "<invalid>"


@pytest.mark.parametrize("nothing", [None, ""])
def test_age_without_a_timestamp(nothing: object) -> None:
    assert age(nothing) == "<unknown>"


@pytest.mark.parametrize("text", ["soon", "2026-11-15", "2026-11-15T12:00:00", "T", "2026-13-15T12:00:00Z"])
def test_age_of_a_malformed_timestamp(text: str) -> None:
    assert seconds(text) is None
    assert age(text) == "<invalid>"


def test_age_reads_the_clock_outside_of_a_table() -> None:
    assert age("2001-01-01T00:00:00Z").endswith("y")
