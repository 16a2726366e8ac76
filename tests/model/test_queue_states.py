"""States of queues: what commands make of them, and which one counts in a tree."""

import pytest

from pumice.model.queue_states import COMMANDS, effective_state, state_after_command, state_when_idle
from pumice.model.specs import Queue, QueueState

OPEN, PAUSED, UNKNOWN = QueueState.OPEN, QueueState.PAUSED, QueueState.UNKNOWN
CLOSING, CLOSED = QueueState.CLOSING, QueueState.CLOSED


@pytest.mark.parametrize("state", QueueState)
@pytest.mark.parametrize("busy", [True, False])
def test_opening_opens_and_closing_closes_whatever_it_was(state, busy):
    assert state_after_command(state, "OpenQueue", busy=busy) is OPEN
    assert state_after_command(state, "CloseQueue", busy=busy) is (CLOSING if busy else CLOSED)


@pytest.mark.parametrize(
    ("before", "paused", "resumed"),
    [
        (OPEN, PAUSED, OPEN),
        (PAUSED, PAUSED, OPEN),
        (UNKNOWN, PAUSED, UNKNOWN),
        (CLOSING, CLOSING, CLOSING),
        (CLOSED, CLOSED, CLOSED),
    ],
)
def test_pausing_stops_what_is_not_closed_and_resuming_starts_what_is_paused(before, paused, resumed):
    assert state_after_command(before, "PauseQueue", busy=True) is paused
    assert state_after_command(before, "ResumeQueue", busy=True) is resumed


def test_pause_and_resume_leave_closed_queue_closed():
    state = CLOSED
    for command in ("PauseQueue", "ResumeQueue"):
        state = state_after_command(state, command, busy=False)
    assert state is CLOSED


def test_other_commands_are_refused_by_name():
    with pytest.raises(ValueError, match="Unsupported value: 'DrainQueue': supported values: OpenQueue, CloseQueue"):
        state_after_command(OPEN, "DrainQueue", busy=False)
    assert len(COMMANDS) == 4


@pytest.mark.parametrize(
    ("state", "busy", "after"),
    [
        (OPEN, False, OPEN),
        (CLOSED, False, CLOSED),
        (CLOSED, True, CLOSING),
        (CLOSING, False, CLOSED),
        (CLOSING, True, CLOSING),
        (PAUSED, False, PAUSED),
        (UNKNOWN, False, UNKNOWN),
    ],
)
def test_a_closed_queue_is_closing_as_long_as_there_is_work(state, busy, after):
    assert state_when_idle(state, busy=busy) is after


@pytest.mark.parametrize(
    ("states", "counts"),
    [
        # Nearest first: the queue itself, its parent, and so on up to the root.
        ([OPEN, OPEN, OPEN], 0),
        ([OPEN, PAUSED, OPEN], 1),
        ([OPEN, PAUSED, PAUSED], 1),
        ([PAUSED, PAUSED, OPEN], 0),
        ([PAUSED, CLOSED, OPEN], 1),
        ([OPEN, PAUSED, CLOSED], 2),
        ([PAUSED, UNKNOWN, OPEN], 1),
        ([CLOSED, PAUSED, PAUSED], 0),
        ([CLOSED, CLOSING, OPEN], 0),
        ([OPEN, CLOSING, CLOSED], 1),
    ],
)
def test_the_strictest_counts_and_of_equals_the_nearest(states, counts):
    line = [Queue(f"q{i}", state=state) for i, state in enumerate(states)]
    assert effective_state(line[0], line[1:]) is line[counts]
