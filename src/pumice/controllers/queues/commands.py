"""Commands to queues: which there are, and in which order they count.

A command is carried out and then deleted. All of them may be carried out twice without harm, but none may be lost: a
crash between the two carries it out again. (In the other order it would be gone and nothing done.) Of several the
oldest comes first, so repeating one never undoes a later one.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.admission import Object
from pumice.admission.request import metadata_of
from pumice.kube.resources import QUEUES, Document
from pumice.model.objects import QueueState
from pumice.model.states import COMMANDS, commanded


def is_for_queue(command: Object) -> bool:
    """Whether a command is for a queue, and so ours."""
    target = command.get("target") or {}
    group = str(target.get("apiVersion") or "").partition("/")[0]
    return target.get("kind") == QUEUES.kind and group == QUEUES.api_version.partition("/")[0]


def in_order(commands: Iterable[Document]) -> list[Document]:
    """Commands, the oldest first."""
    return sorted(commands, key=_age)


def is_meant(command: Object, queue: Object | None) -> bool:
    """Whether a queue is the target of a command, rather than another of the same name; and the command is known."""
    if queue is None or command.get("action") not in COMMANDS:
        return False
    uid = (command.get("target") or {}).get("uid")
    return not uid or uid == queue["metadata"]["uid"]


def obeyed(own: QueueState, action: str) -> QueueState:
    """What a queue is by itself, once a command is carried out."""
    return commanded(own, action, busy=False)


def _age(command: Document) -> tuple[str, int, str]:
    about = metadata_of(command)
    revision = str(about.get("resourceVersion") or "")
    return about.get("creationTimestamp") or "", int(revision) if revision.isdecimal() else 0, about["name"]
