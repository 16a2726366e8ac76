"""Lengths of time: Go's notation, and days."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.duration import DurationError, microseconds_of

SECOND = 10**6


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("30s", 30 * SECOND),
        ("3m", 180 * SECOND),
        # 3600 + 1800
        ("1h30m", 5_400 * SECOND),
        ("1.5h", 5_400 * SECOND),
        (".5s", SECOND // 2),
        ("2.s", 2 * SECOND),
        ("1d", 86_400 * SECOND),
        ("1d12h", 129_600 * SECOND),
        ("1us", 1),
        ("1µs", 1),
        ("1μs", 1),
        # 3600 + 120 + 3 s, 4 ms, 5 us; 6 ns are less than one microsecond
        ("1h2m3s4ms5us6ns", 3_723 * SECOND + 4_005),
        ("1000ns", 1),
        # Tenths add up exactly: no floats.
        ("0.1s0.2s", 300_000),
    ],
)
def test_length(text: str, microseconds: int) -> None:
    assert microseconds_of(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "30", "s", "1 h", "1h 30m", "-5m", "+5m", "1w", "1H", "1e3s", "1..5s", ".s", "٣s", "1s\n", "0s", "5ns"]
)
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(DurationError, match="such as 90s"):
        microseconds_of(text)


@pytest.mark.parametrize("text", ["300000000h", "9" * 99 + "s", "9" * 5000 + "s"])
def test_too_long(text: str) -> None:
    with pytest.raises(DurationError) as refused:
        microseconds_of(text)
    assert len(str(refused.value)) < 200


@given(st.integers(0, 10**4), st.integers(0, 59), st.integers(1, 59))
def test_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert microseconds_of(f"{hours}h{minutes}m{seconds}s") == ((hours * 60 + minutes) * 60 + seconds) * SECOND
