"""States of queues: what commands make of them, and which one counts in a tree.

Only an Open queue starts work. Every queue has a state of its own and keeps it, whatever happens above; a queue
above that is not Open counts for everything below it, as long as it lasts. So opening a parent again restores what
each child was by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.model.specs import Queue, QueueState

COMMANDS = ("OpenQueue", "CloseQueue", "PauseQueue", "ResumeQueue")

_CLOSED = (QueueState.CLOSING, QueueState.CLOSED)
_STRICTNESS = {
    QueueState.OPEN: 0,
    QueueState.PAUSED: 1,
    QueueState.UNKNOWN: 2,
    QueueState.CLOSING: 3,
    QueueState.CLOSED: 3,
}


def state_after_command(state: QueueState, command: str, *, busy: bool) -> QueueState:
    """The state that a command leads to; ``busy``: there are unfinished jobs in the queue or below it.

    A queue that is closed is no less so for being paused; so pausing and resuming never open it.
    """
    match command:
        case "OpenQueue":
            return QueueState.OPEN
        case "CloseQueue":
            return state_when_idle(QueueState.CLOSING, busy=busy)
        case "PauseQueue":
            return state if state in _CLOSED else QueueState.PAUSED
        case "ResumeQueue":
            return QueueState.OPEN if state is QueueState.PAUSED else state
    raise ValueError(f"{command!r} is no command for a queue; it is one of {', '.join(COMMANDS)}")


def state_when_idle(state: QueueState, *, busy: bool) -> QueueState:
    """Closing while there are unfinished jobs in the queue or below it, Closed without; others stay what they are."""
    if state not in _CLOSED:
        return state
    return QueueState.CLOSING if busy else QueueState.CLOSED


def effective_state(queue: Queue, above: Iterable[Queue]) -> Queue:
    """Whose state counts for a queue: its own, or the nearest above it that is stricter than all below that one."""
    strictest = queue
    for parent in above:
        if _STRICTNESS[parent.state] > _STRICTNESS[strictest.state]:
            strictest = parent
    return strictest


def stopped_by(path: Iterable[Queue]) -> list[Queue]:
    """The queues on a path from the root down that are not Open by themselves, as far as their states tell.

    A queue may show the state that a queue above it gives it. So only one that is stricter than all above it is known
    to be so by itself.
    """
    found: list[Queue] = []
    for queue in path:
        if _STRICTNESS[queue.state] > (_STRICTNESS[found[-1].state] if found else 0):
            found.append(queue)
    return found
