"""``queue delete``: lists what is deleted with a queue, and asks for confirmation on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, error_message, on_cluster
from pumice.cli.cluster.command_objects import wait_option, wait_until_gone
from pumice.cli.cluster.name_arguments import QUEUE_NAME_HELP, all_names
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_printer import not_found_message, object_name, styled_state
from pumice.cli.cluster.queue_tree import queue_tree
from pumice.cli.terminal import echo, print_error

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document

PROTECTED_ANNOTATION = "pumice.dev/protected"
MAX_LISTED = 20
"""So many of a kind are shown; of the rest, the number."""


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The objects to delete: queues with their subtrees, parents first, and their podgroups and jobs."""

    queues: list[Document]
    groups: list[Document]
    jobs: list[Document]

    def lines(self) -> Iterator[str]:
        """The lines that list the objects."""
        yield from _limited("queue", [_summary(queue, "") for queue in self.queues])
        yield from _limited("job", [_summary(job, _phase(job)) for job in self.jobs])
        yield from _limited("podgroup", [_summary(group, _phase(group)) for group in self.groups])


@click.command(
    "delete",
    cls=ClusterCommand,
    examples="""
        # Delete the queue dev, after confirmation of what is deleted with it
        {me} dev

        # Show what would be deleted
        {me} dev --dry-run

        # In a script
        {me} dev --yes
    """,
)
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=queue_names)
@click.option("-n", "-N", "--name", "others", multiple=True, shell_complete=queue_names, help=QUEUE_NAME_HELP)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, without deleting it.")
@wait_option(60, "the object is deleted")
@on_cluster()
def delete(
    cluster: Cluster, names: tuple[str, ...], others: tuple[str, ...], yes: bool, dry_run: bool, wait: float
) -> int:
    """Delete queues with their child queues, jobs and podgroups.

    Child queues are deleted first, with all their jobs and podgroups. The command lists the objects and asks for
    confirmation; without a terminal it requires --yes. A queue with the annotation pumice.dev/protected: "true", and
    every queue above it, cannot be deleted.
    """
    from pumice.kube.resources import QUEUES

    wanted = all_names(names, others)
    client = cluster.client
    queues = client.list(QUEUES.path()).items
    known = {str(queue["metadata"]["name"]): queue for queue in queues}
    missing = [name for name in wanted if name not in known]
    if missing:  # one misspelt name: delete nothing
        for name in missing:
            print_error(not_found_message(QUEUES, name, list(known)))
        return 1
    found = plan_deletion(client, wanted, queues)
    if dry_run or not yes:
        echo("would be deleted:" if dry_run else "will be deleted:", err=not dry_run)
        for line in found.lines():
            echo(line, err=not dry_run)
    if dry_run:
        return 0
    if not yes and not _confirm(len(found.queues)):
        echo("nothing was deleted", err=True)
        return 1
    return max([_delete_queue(client, known[name], wait) for name in wanted])


def plan_deletion(client: Client, names: Sequence[str], queues: Sequence[Document]) -> DeletionPlan:
    """The objects that are deleted with queues."""
    from pumice.kube.resources import JOBS, POD_GROUPS

    laid_out = queue_tree(queues)
    below = {line.name: line for name in names for _, line in laid_out.subtree(name)}
    groups = client.list(POD_GROUPS.path()).items
    jobs = client.list(JOBS.path()).items
    return DeletionPlan(
        [line.queue for line in below.values() if line.queue is not None],
        [group for group in groups if (group.get("spec") or {}).get("queue") in below],
        [job for job in jobs if (job.get("spec") or {}).get("queue") in below],
    )


def _confirm(queues: int) -> bool:
    """Ask for confirmation. Without a terminal this is an error."""
    if not sys.stdin.isatty():
        raise click.ClickException(
            "cannot ask for confirmation: standard input is not a terminal; use --yes to delete without asking"
        )
    question = "delete it?" if queues == 1 else f"delete these {queues} queues, and what is in them?"
    try:
        return click.confirm(question, default=False, err=True)
    except click.Abort:
        echo(err=True)
        return False


def _delete_queue(client: Client, queue: Document, wait: float) -> int:
    """Delete a queue and report it; returns the exit status."""
    from pumice.kube.client.api_errors import ApiError
    from pumice.kube.resources import QUEUES

    about, subject = queue["metadata"], object_name(queue, QUEUES)
    path, uid = QUEUES.path("", about["name"]), str(about.get("uid") or "")
    try:
        client.delete(path, uid=uid)
    except ApiError as error:
        if error.not_found:  # deleted with another of the named queues
            echo(f"{subject} deleted")
            return 0
        print_error(error_message(error))
        return 1
    if wait and not wait_until_gone(client, path, uid, wait):
        print_error(f"timed out after {wait:g} s waiting for {subject} to be deleted; vqueues shows what remains")
        return 1
    echo(f"{subject} deleted")
    return 0


def _limited(kind: str, subjects: Sequence[str]) -> Iterator[str]:
    for subject in subjects[:MAX_LISTED]:
        yield f"  {kind} {subject}"
    if len(subjects) > MAX_LISTED:
        yield f"  and {len(subjects) - MAX_LISTED:,} more {kind}s"


def _summary(document: Document, phase: str) -> str:
    about = document["metadata"]
    name = "/".join(str(about[part]) for part in ("namespace", "name") if about.get(part))
    protected = (about.get("annotations") or {}).get(PROTECTED_ANNOTATION) == "true"
    return (
        name
        + (f" {styled_state(phase)}" if phase else "")
        + (click.style(" (protected)", fg="red") if protected else "")
    )


def _phase(document: Document) -> str:
    status = document.get("status") or {}
    return str(status.get("phase") or (status.get("state") or {}).get("phase") or "Pending")
