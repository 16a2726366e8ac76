"""``pumice top``: the live tree of queues, with bars for used, entitled and limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.cli.top.queue_usage import ClusterUsage

PLAIN_COLUMNS = 100
"""Columns of the output if it is not a terminal."""


@click.command(
    cls=ClusterCommand,
    examples="""
        # Live view: q quits, arrow keys scroll, w shows quantities, n hides namespaces
        {me}

        # Once, as text
        {me} --once -o wide
    """,
)
@on_cluster()
@click.option(
    "--once", is_flag=True, help="Print the current usage once and exit; the default if the output is not a terminal."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; wide adds weights and quantities used/entitled/limit, json and yaml are printed once.",
)
@click.option("--namespaces/--no-namespaces", default=True, help="Show the namespaces that have jobs in a queue.")
def top(cluster: Cluster, once: bool, output: str, namespaces: bool) -> int:
    """Show usage, entitlement and limit of all queues.

    The width of a bar is the whole cluster; it shows the share of a queue by its dominant resource. RUN, INQ and PEND
    count podgroups. A line ns/NAME is a namespace with jobs in the queue above it. Without the right to list nodes, the
    command shows what the scheduler wrote into the status of queues.
    """
    wide = output == "wide"
    if output in ("json", "yaml"):
        from pumice.cli.top.usage_table import usage_values

        echo_values(usage_values(_read_usage(cluster)), output)
    elif once or not sys.stdout.isatty():
        found = _read_usage(cluster)
        _print_once(found if namespaces else found.without_namespaces(), wide)
    else:
        from pumice.cli.top.live_screen import run_screen

        return run_screen(cluster, wide=wide, namespaces=namespaces)
    return 0


def _read_usage(cluster: Cluster) -> ClusterUsage:
    from pumice.cli.cluster.denied_lists import list_if_allowed
    from pumice.cli.top.queue_usage import cluster_usage
    from pumice.kube.resources import NODES, QUEUES

    queues, nodes = (list_if_allowed(cluster.client, resource.path()) for resource in (QUEUES, NODES))
    return cluster_usage(queues, nodes)


def _print_once(board: ClusterUsage, wide: bool) -> None:
    import shutil

    from pumice.cli.top.usage_table import bar_legend, cluster_summary, usage_lines

    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else PLAIN_COLUMNS
    if board.queues_known:
        echo(cluster_summary(board))
        for line in usage_lines(board, columns, wide=wide, cut=terminal):
            echo(line)
        echo(bar_legend())
    for note in board.notes:
        echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
