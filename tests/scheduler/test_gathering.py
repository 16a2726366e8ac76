"""How long the scheduler collects changes before a cycle: hardly after a quiet time, longer after a long cycle."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pumice.scheduler.loop import BUSIEST_GATHER, BUSY, BUSY_GATHER, FIRST_GATHER, GATHER, READ_GATHER, Scheduler


def gather_seconds(*, ago: float, took: float, in_flight: int = 0) -> float:
    """What a scheduler whose last cycle ended so long ago would wait."""
    now = 1000.0
    scheduler: Any = SimpleNamespace(binder=SimpleNamespace(in_flight=in_flight), _last=now - ago, _cycle_seconds=took)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now)
        return Scheduler._gather_seconds(cast("Scheduler", scheduler))


@pytest.mark.parametrize(
    ("ago", "took", "expected"),
    [
        (60.0, 0.001, FIRST_GATHER),  # quiet: those that come with the first change
        (0.0, 0.003, 0.006),  # twice what a short cycle takes
        (0.004, 0.003, FIRST_GATHER),
        (0.0, 5.0, GATHER),  # never more than that after a long one
        (0.015, 5.0, 0.005),
    ],
)
def test_changes_are_collected_from_one_cycle_to_the_next(ago: float, took: float, expected: float) -> None:
    assert gather_seconds(ago=ago, took=took) == pytest.approx(expected)


def test_informers_read_on_unless_the_next_cycle_is_far() -> None:
    pauses = []
    for in_flight in (0, BUSY - 1, BUSY):
        scheduler: Any = SimpleNamespace(binder=SimpleNamespace(in_flight=in_flight))
        pauses.append(Scheduler._read_pause(cast("Scheduler", scheduler)))
    assert pauses == [0.0, 0.0, READ_GATHER] and READ_GATHER <= BUSY_GATHER / 2


def test_a_scheduler_whose_decisions_wait_to_be_written_collects_longer() -> None:
    assert gather_seconds(ago=60.0, took=0.001, in_flight=BUSY) == BUSY_GATHER
    assert gather_seconds(ago=60.0, took=0.001, in_flight=1200) == pytest.approx(0.15)
    assert gather_seconds(ago=60.0, took=0.001, in_flight=100_000) == BUSIEST_GATHER
