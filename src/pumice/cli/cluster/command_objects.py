"""Command objects for queues and jobs: a controller executes and deletes them.

The sender waits until the controller has deleted the Command and the target has the expected state, so that success
means an executed command. A Command that no controller has executed in time stays, and is executed later.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document
    from pumice.kube.resources import Resource

POLL_SECONDS = 0.1
"""Seconds between two reads of a Command."""

SILENT_SECONDS = 2.0
"""Seconds after which a line says what the command waits for."""

Function = TypeVar("Function", bound=Callable[..., Any])


def wait_option(seconds: float, until: str) -> Callable[[Function], Function]:
    """The option that limits how long to wait for the effect."""
    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        default=seconds,
        show_default=True,
        help=f"Maximum time to wait until {until}; 0: do not wait.",
    )


def create_command(client: Client, action: str, target: Document, resource: Resource[Any], namespace: str) -> str:
    """Give an order, as Volcano's commands do; gives the path of the Command."""
    from pumice.kube.resources import COMMANDS

    about = target["metadata"]
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": about["name"],
        "uid": about.get("uid", ""),
    }
    made = client.create(
        COMMANDS.path(namespace),
        {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": {
                "generateName": f"{about['name']}-{action.lower()}-",
                "namespace": namespace,
                "ownerReferences": [reference],
            },
            "action": action,
            "target": reference,
        },
    )
    return COMMANDS.path(namespace, made["metadata"]["name"])


def wait_for_effect(
    client: Client, command: str, target: str, as_ordered: Callable[[Document], bool], seconds: float
) -> Document | None:
    """Wait until a Command is executed; returns the target, or None if no controller has executed it in time."""
    begun = time.monotonic()
    deadline, told = begun + seconds, not sys.stderr.isatty()
    while True:
        taken = is_gone(client, command)
        found = client.get(target) if taken else {}
        if taken and (as_ordered(found) or time.monotonic() > deadline):
            return found
        if time.monotonic() > deadline:
            return None
        if not told and time.monotonic() > begun + SILENT_SECONDS:
            echo(f"waiting for the controllers to execute the command, for at most {seconds:g} s", err=True)
            told = True
        time.sleep(POLL_SECONDS)


def wait_until_gone(client: Client, path: str, uid: str, seconds: float) -> bool:
    """Wait until an object is deleted; False if it still exists."""
    deadline = time.monotonic() + seconds
    while not is_gone(client, path, uid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_gone(client: Client, path: str, uid: str = "") -> bool:
    """Whether an object does not exist; with a uid, whether this object does not exist."""
    from pumice.kube.client.api_errors import ApiError

    try:
        found = client.get(path)
    except ApiError as error:
        if not error.not_found:
            raise
        return True
    return bool(uid) and found["metadata"].get("uid") != uid


def not_executed(subject: str, order: str, wait: float) -> str:
    """The message that no controller has executed a Command."""
    return (
        f"{subject}: timed out after {wait:g} s waiting for the command {order}. It will be executed when the "
        "controllers run (pumice controllers)"
    )
