"""States of queues: the effect of commands, and the effective state in a tree.

Only an Open queue starts work. Every queue has its own state and keeps it, whatever happens above; an ancestor that is
not Open overrides everything below it while that lasts. So opening a parent again restores each child's own state.
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
    """The state after a command; ``busy``: there are unfinished jobs in the queue or below it.

    Pausing does not make a closed queue less closed; so pausing and resuming never open it.
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
    raise ValueError(f"Unsupported value: {command!r}: supported values: {', '.join(COMMANDS)}")


def state_when_idle(state: QueueState, *, busy: bool) -> QueueState:
    """Closing while there are unfinished jobs in the queue or below it, Closed without; other states stay."""
    if state not in _CLOSED:
        return state
    return QueueState.CLOSING if busy else QueueState.CLOSED


def effective_state(queue: Queue, above: Iterable[Queue]) -> Queue:
    """The queue whose state is effective: itself, or the nearest ancestor that is stricter than all below that one."""
    strictest = queue
    for parent in above:
        if _STRICTNESS[parent.state] > _STRICTNESS[strictest.state]:
            strictest = parent
    return strictest


def stopped_by(path: Iterable[Queue]) -> list[Queue]:
    """The queues on a path from the root down whose own state is not Open, as far as their states show.

    A queue may show the state of an ancestor. So only a queue that is stricter than all its ancestors is known to have
    that state itself.
    """
    found: list[Queue] = []
    for queue in path:
        if _STRICTNESS[queue.state] > (_STRICTNESS[found[-1].state] if found else 0):
            found.append(queue)
    return found
