"""``queue operate``: opens, closes, pauses or resumes a queue, or changes its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.command_objects import create_command, not_executed, wait_for_effect, wait_option
from pumice.cli.cluster.name_arguments import QUEUE_NAME_HELP, one_name
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_printer import object_name
from pumice.cli.cluster.queue_table import state_of
from pumice.cli.cluster.queue_weight import change_weight
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

COMMAND_NAMESPACE = "default"
"""The namespace of Commands to queues, which are in none themselves; Volcano's commands use the same."""

ACTIONS = {
    "open": ("OpenQueue", "opened", ("Open",)),
    "close": ("CloseQueue", "closed", ("Closed", "Closing")),
    "pause": ("PauseQueue", "paused", ("Paused",)),
    "resume": ("ResumeQueue", "resumed", ("Open", "Closed", "Closing")),
}
"""For each action: the action of the Command, the participle in messages, and the expected states of the queue."""


@click.command(
    "operate",
    cls=ClusterCommand,
    examples="""
        # Accept no more jobs; running jobs continue. Closing a parent closes its children
        {me} dev --action close

        # Accept jobs again
        {me} dev --action open

        # Accept jobs without starting them; and start them again
        {me} dev --action pause
        {me} dev --action resume

        # Another weight among its siblings
        {me} dev --weight 4
    """,
)
@click.argument("name", metavar="NAME", default="", shell_complete=queue_names)
@click.option("-n", "-N", "--name", "other", default="", shell_complete=queue_names, help=QUEUE_NAME_HELP)
@click.option(
    "-a", "--action", type=click.Choice([*ACTIONS, "update"]), help="Action to perform; update sets the weight."
)
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="New weight among its siblings.")
@wait_option(10, "the command is executed")
@on_cluster()
def operate(cluster: Cluster, name: str, other: str, action: str | None, weight: int | None, wait: float) -> None:
    """Open, close, pause or resume a queue, or give it another weight.

    Creates a Command object for the queue controller, and prints the resulting state: the state of a parent queue can
    take precedence.
    """
    from pumice.kube.resources import QUEUES

    wanted = one_name(name, other, needed=True)
    if weight is None and action in (None, "update"):
        raise click.UsageError("an --action (open, close, pause, resume) or a --weight is required")
    path = QUEUES.path("", wanted)
    queue = cluster.client.get(path)
    if weight is not None:
        queue = change_weight(cluster.client, queue, weight)
        echo(f"{object_name(queue, QUEUES)} has weight {weight}")
    if action in ACTIONS:
        _send_command(cluster, str(action), queue, path, wait)


def _send_command(cluster: Cluster, action: str, queue: Document, path: str, wait: float) -> None:
    from pumice.kube.resources import QUEUES

    order, done, states = ACTIONS[action]
    subject = object_name(queue, QUEUES)
    command = create_command(cluster.client, order, queue, QUEUES, COMMAND_NAMESPACE)
    if not wait:
        echo(f"{subject} {order} sent")
        return
    found = wait_for_effect(
        cluster.client, command, path, lambda queue: state_of(queue) in states or _is_overruled(queue, states), wait
    )
    if found is None:
        raise click.ClickException(not_executed(subject, order, wait))
    state = state_of(found)
    if state == "Closing" and action == "close":
        echo(f"{subject} closing: it accepts no more jobs, and closes when its jobs have finished")
    elif state in states:
        echo(f"{subject} {done}" + ("" if action != "resume" else f" (state {state})"))
    else:
        echo(f"{subject} is {state}: {order} was executed, but {_overruled_because(found)}")


def _is_overruled(queue: Document, states: tuple[str, ...]) -> bool:
    """Whether a queue has the requested state as its own, and an ancestor's state takes precedence."""
    from pumice.controllers.queues.state_sync import COMMANDED, OWN

    return any(
        condition.get("type") == OWN
        and condition.get("reason") in states
        and condition.get("message")
        and not str(condition["message"]).startswith(COMMANDED)
        for condition in (queue.get("status") or {}).get("conditions") or ()
    )


def _overruled_because(queue: Document) -> str:
    """Why a queue does not have the requested state, from the conditions that its controller sets."""
    for condition in (queue.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "OwnState" and condition.get("message"):
            return str(condition["message"])
    return "the state of a parent queue takes precedence"
