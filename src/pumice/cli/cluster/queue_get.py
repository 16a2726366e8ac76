"""``queue tree``, ``list``, ``children`` and ``get``: show queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.name_arguments import QUEUE_NAME_HELP, all_names, one_name
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_printer import output_option, print_objects, report_missing, watch_option
from pumice.cli.cluster.queue_table import QueueTable
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Query


@click.command(
    "tree",
    cls=ClusterCommand,
    examples="""
        # The tree of all queues: weights, states, and how many podgroups are in which phase
        {me}

        # The queue dev and what is below it
        {me} dev

        # With shares, and what each is entitled to, deserves, is guaranteed and may have at most
        {me} -o wide

        # Watch, and print every line that changes
        {me} -w
    """,
)
@click.argument("name", metavar="[NAME]", default="", shell_complete=queue_names)
@click.option("-n", "-N", "--name", "other", default="", shell_complete=queue_names, help=QUEUE_NAME_HELP)
@output_option
@watch_option
@on_cluster()
def tree(cluster: Cluster, name: str, other: str, output: str, watch: bool) -> int:
    """Show the tree of queues, or the subtree of a queue.

    The last four columns count podgroups by phase. Only leaf queues have jobs; a parent shows the sums of its children.
    """
    wanted = one_name(name, other)
    view = QueueTable("tree", [wanted] if wanted else [], wide=output == "wide")
    return _show(cluster, view, output, watch)


@click.command(
    "list",
    cls=ClusterCommand,
    examples="""
        # All queues by name
        {me}

        # Those with a label
        {me} -l team=research

        # As they are in the API
        {me} -o yaml
    """,
)
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label selector, for example a=b,c!=d.")
@output_option
@watch_option
@on_cluster()
def list_queues(cluster: Cluster, selector: str, output: str, watch: bool) -> int:
    """List the queues by name."""
    query = {"labelSelector": selector} if selector else None
    return _show(cluster, QueueTable("list", wide=output == "wide"), output, watch, query)


@click.command(
    "children",
    cls=ClusterCommand,
    examples="""
        # The child queues of dev
        {me} dev

        # Their names alone
        {me} dev -o name
    """,
)
@click.argument("name", metavar="NAME", default="", shell_complete=queue_names)
@click.option("-n", "-N", "--name", "other", default="", shell_complete=queue_names, help=QUEUE_NAME_HELP)
@output_option
@watch_option
@on_cluster()
def children(cluster: Cluster, name: str, other: str, output: str, watch: bool) -> int:
    """List the child queues of a queue."""
    wanted = one_name(name, other, needed=True)
    return _show(cluster, QueueTable("children", [wanted], wide=output == "wide"), output, watch)


@click.command(
    "get",
    cls=ClusterCommand,
    examples="""
        # One queue
        {me} dev

        # Everything that the API says of it
        {me} dev -o yaml

        # Two of them, and what changes
        {me} dev test1 -w
    """,
)
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=queue_names)
@click.option("-n", "-N", "--name", "others", multiple=True, shell_complete=queue_names, help=QUEUE_NAME_HELP)
@output_option
@watch_option
@on_cluster()
def get(cluster: Cluster, names: tuple[str, ...], others: tuple[str, ...], output: str, watch: bool) -> int:
    """Show queues by their names."""
    wanted = all_names(names, others)
    return _show(cluster, QueueTable("names", wanted, wide=output == "wide"), output, watch)


def _show(cluster: Cluster, view: QueueTable, output: str, watch: bool, query: Query | None = None) -> int:
    shown = print_objects(
        cluster.client, view.resource.path(), query, view, output, watch=watch, alone=len(view.names) == 1
    )
    for note in view.notes:
        echo(f"note: {note}", err=True)
    status = report_missing(view.resource, view.names, view.existing_names)
    if not shown and not status and output in ("table", "wide"):
        echo("no queues found" if not view.names else f"{view.names[0]} has no child queues", err=True)
    return status
