from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.clock import Clock, micro_stamp, parse_time, stamp
from tests.support.still_clock import NOON, StillClock


def test_speed_shortens_durations_and_leaves_timestamps_alone():
    # At speed 60, 600 seconds of the cluster take 600 / 60 = 10 on the wall.
    clock = StillClock(speed=60)
    assert clock.real(600) == 10
    clock.time = NOON + 10
    assert clock.since("2024-05-01T12:00:00Z") == 600
    assert stamp(clock.now()) == "2024-05-01T12:00:10Z"


def test_a_speed_of_zero_is_refused():
    with pytest.raises(ValueError, match="write a number above 0"):
        Clock(0)


@given(st.integers(0, 4_000_000_000))
def test_a_timestamp_names_its_moment(seconds: int):
    assert parse_time(stamp(seconds)) == seconds
    assert parse_time(micro_stamp(seconds + 0.25)) == seconds + 0.25
