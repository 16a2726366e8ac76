"""Commands: their target, their order, and the Event for one that fails.

Creation timestamps have a resolution of seconds, and two commands may be created within one. Then the resourceVersion
decides which came first.

A Command is deleted once it is consumed, whether it could be executed or not. If not, an Event about it gives the
reason: it stays for a while in the namespace of the Command (``kubectl get events``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pumice.controllers import COMPONENT
from pumice.kube.client.api import Api
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import COMMANDS, Document, Resource


def is_for(command: Document, resource: Resource[Any]) -> bool:
    """Whether a command targets an object of this kind, in any version of its API."""
    target = command.get("target") or {}
    group = str(target.get("apiVersion") or "").partition("/")[0]
    return target.get("kind") == resource.kind and group == resource.api_version.partition("/")[0]


def in_order(commands: Iterable[Document]) -> list[Document]:
    """Commands, the oldest first."""
    return sorted(commands, key=_age)


def failure(command: Document, target: Document | None, actions: Collection[str] | None = None) -> str:
    """Why a command cannot be executed on the current target; empty: it can.

    ``actions``: those that objects of that kind support, if not all are passed on.
    """
    wanted = command.get("target") or {}
    kind, name, uid = str(wanted.get("kind") or "object").lower(), wanted.get("name"), wanted.get("uid")
    if not name:
        return "target.name: Required value"
    if target is None:
        return f"{kind} '{name}' not found"
    if uid and uid != target["metadata"]["uid"]:
        there = target["metadata"]["uid"]
        return f"target.uid: Invalid value: '{uid}': {kind} '{name}' has the uid '{there}', so it was recreated since"
    if actions is not None and command.get("action") not in actions:
        return (
            f"action: Unsupported value for a {kind}: '{command.get('action')}': supported values: {', '.join(actions)}"
        )
    return ""


async def record_failure(api: Api, command: Document, why: str, now: str) -> None:
    """Record an Event with the reason why a command is not executed. Idempotent."""
    about = {**command, "apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind}
    message = f"Command {command.get('action')} failed: {why}"
    await record_once(api, COMPONENT, about, "CommandFailed", message, now, "Warning")


def _age(command: Document) -> tuple[str, int, str]:
    about = command["metadata"]
    revision = str(about.get("resourceVersion") or "")
    return about.get("creationTimestamp") or "", int(revision) if revision.isdecimal() else 0, about["name"]
