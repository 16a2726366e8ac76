"""Commands to queues and their effects.

The controller executes a command and then deletes it. Every command is idempotent, and none may be lost: after a crash
between the two it is executed again. (In the other order it would be deleted without any effect.) Commands run oldest
first, so repeating one never undoes a later one.
"""

from __future__ import annotations

from pumice.admission import Object
from pumice.controllers.commands import failure
from pumice.model.queue_states import COMMANDS, state_after_command
from pumice.model.specs import QueueState


def why_not(command: Object, queue: Object | None) -> str:
    """Why a command is not executed: the queue is missing or was recreated, or the command is unknown."""
    return failure(command, queue, COMMANDS)


def obeyed(own: QueueState, action: str) -> QueueState:
    """A queue's own state after a command."""
    return state_after_command(own, action, busy=False)
