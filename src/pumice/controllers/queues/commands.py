"""Commands to queues: which there are, and what they do.

A command is carried out and then deleted. All of them may be carried out twice without harm, but none may be lost: a
crash between the two carries it out again. (In the other order it would be gone and nothing done.) Of several the
oldest comes first, so repeating one never undoes a later one.
"""

from __future__ import annotations

from pumice.admission import Object
from pumice.model.objects import QueueState
from pumice.model.states import COMMANDS, commanded


def is_meant(command: Object, queue: Object | None) -> bool:
    """Whether a queue is the target of a command, rather than another of the same name; and the command is known."""
    if queue is None or command.get("action") not in COMMANDS:
        return False
    uid = (command.get("target") or {}).get("uid")
    return not uid or uid == queue["metadata"]["uid"]


def obeyed(own: QueueState, action: str) -> QueueState:
    """What a queue is by itself, once a command is carried out."""
    return commanded(own, action, busy=False)
