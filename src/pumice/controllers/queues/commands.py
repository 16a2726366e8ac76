"""Commands to queues: which there are, and what they do.

A command is carried out and then deleted. All of them may be carried out twice without harm, but none may be lost: a
crash between the two carries it out again. (In the other order it would be gone and nothing done.) Of several the
oldest comes first, so repeating one never undoes a later one.
"""

from __future__ import annotations

from pumice.admission import Object
from pumice.controllers.commands import failure
from pumice.model.queue_states import COMMANDS, state_after_command
from pumice.model.specs import QueueState


def why_not(command: Object, queue: Object | None) -> str:
    """Why a command is not carried out: the queue is missing or another one by now, or the command is unknown."""
    return failure(command, queue, COMMANDS)


def obeyed(own: QueueState, action: str) -> QueueState:
    """What a queue is by itself, once a command is carried out."""
    return state_after_command(own, action, busy=False)
