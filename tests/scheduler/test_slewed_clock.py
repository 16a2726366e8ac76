"""Time that follows the machine's clock without its jumps."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.config.load import default_config
from pumice.scheduler import loop as module
from pumice.scheduler.slewed_clock import LITTLE, PROOF, SLOWER, SlewedClock

BEGIN = 1_800_000_000.0
YEAR = 365 * 86400.0


class Machine:
    """A machine: how long it runs, and how far its clock was set from the time."""

    def __init__(self) -> None:
        self.runs, self.off = 100.0, 0.0
        self.clock = SlewedClock(lambda: BEGIN + self.runs - 100 + self.off, lambda: self.runs)

    def after(self, seconds: float) -> float:
        """What the clock says then, in seconds since the beginning."""
        self.runs += seconds
        return self.clock() - BEGIN


def test_slewed_clock_follows_small_offset_of_system_clock() -> None:
    machine = Machine()
    assert machine.after(10) == 10
    machine.off = LITTLE
    assert machine.after(1) == pytest.approx(11 + LITTLE)


def test_a_clock_that_is_a_year_ahead_for_a_moment_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.off = YEAR
    with caplog.at_level(logging.WARNING):
        assert [machine.after(1) for _ in range(5)] == pytest.approx([1, 2, 3, 4, 5])
        machine.off = 0
        assert machine.after(1) == pytest.approx(6)
    assert [record.message for record in caplog.records] == [
        "The system clock jumped ahead: seconds=31536000 acceptedAfterSeconds=30",
        "The system clock and the scheduler's clock agree again",
    ]


def test_slewed_clock_accepts_lasting_forward_jump_after_delay() -> None:
    machine = Machine()
    machine.off = 3600
    assert machine.after(1) == pytest.approx(1)
    assert machine.after(PROOF - 1) == pytest.approx(PROOF)
    assert machine.after(1) == pytest.approx(3600 + PROOF + 1)


def test_slewed_clock_runs_slower_after_system_clock_set_back(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.off = -9
    with caplog.at_level(logging.WARNING):
        assert machine.after(10) == pytest.approx(9)  # a tenth of ten seconds less
        # 8 s are left: after 80 more of them they agree.
        assert machine.after(80) == pytest.approx(90 - 9)
        assert machine.after(10) == pytest.approx(100 - 9)
    assert len(caplog.records) == 2 and "was set back" in caplog.text and "seconds=9" in caplog.text


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e8, 1e8))))
def test_it_never_goes_back_and_never_stands(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    before = machine.after(0)
    for passed, machine.off in steps:
        now = machine.after(passed)
        assert now >= before + (1 - SLOWER) * passed - 1e-6
        before = now


def test_the_scheduler_decides_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(module, "SlewedClock", lambda: machine.clock)
    scheduler = module.Scheduler(Nobody(), default_config())  # type: ignore[arg-type]  # nothing is asked of it
    seen = []
    for machine.off in (0, YEAR, 0, 0):
        machine.runs += 1
        scheduler.cycle()
        seen.append(scheduler.engine.now / 1_000_000 - BEGIN)
    assert seen == pytest.approx([1, 2, 3, 4])


class Nobody:
    """An API of which nothing is asked."""
