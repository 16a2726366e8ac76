"""``pumice top``: the live tree of queues, with bars for used, entitled and limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.cli.top.queue_usage import ClusterUsage
    from pumice.cli.top.workload_usage import View
    from pumice.kube.resources import Resource

PLAIN_COLUMNS = 100
"""Columns of the output if it is not a terminal."""


@click.command(
    cls=ClusterCommand,
    examples="""
        # Live view: q quits, arrow keys scroll, Tab or 1 to 5 change the view, w shows quantities, n hides namespaces
        {me}

        # The nodes and the pods on them
        {me} --view nodes

        # Once, as text
        {me} --once -o wide
    """,
)
@on_cluster(namespaced=True)
@click.option(
    "--view",
    type=click.Choice(["queues", "jobs", "users", "namespaces", "nodes"]),
    default="queues",
    show_default=True,
    help="What a line shows.",
)
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
def top(cluster: Cluster, view: str, once: bool, output: str, namespaces: bool) -> int:
    """Show usage, entitlement and limit of all queues; or the usage of jobs, users, namespaces or nodes.

    The width of a bar is the whole cluster (of a node, the node); it shows the share by the dominant resource. In the
    view of queues RUN, INQ and PEND count podgroups, WAIT counts pods without a node, and a line ns/NAME is a namespace
    with jobs in the queue above it; in the other views RUN and WAIT count pods, and where pods are measured (pods that
    are processes, or a cluster with metrics-server), CPU-NOW, MEMORY-NOW and GPU-NOW show what they really use.

    What you may not list is left out: without the right to list nodes, the shares are those that the scheduler wrote
    into the status of queues; with rights in one namespace, jobs and users are those of this namespace.
    """
    from pumice.cli.top.workload_usage import View

    wide, chosen = output == "wide", View(view)
    if output in ("json", "yaml"):
        from pumice.cli.top.usage_table import usage_values
        from pumice.cli.top.workload_table import workload_values

        found = _read_usage(cluster)
        echo_values(usage_values(found) if chosen is View.QUEUES else workload_values(found, chosen), output)
    elif once or not sys.stdout.isatty():
        found = _read_usage(cluster)
        _print_once(found if namespaces else found.without_namespaces(), chosen, wide)
    else:
        from pumice.cli.top.live_screen import run_screen

        return run_screen(cluster, wide=wide, namespaces=namespaces, view=chosen)
    return 0


def _read_usage(cluster: Cluster) -> ClusterUsage:
    from pumice.cli.cluster.denied_lists import list_if_allowed
    from pumice.cli.cluster.measured_use import pod_metrics
    from pumice.cli.top.usage_source import UsageSource

    def objects(resource: Resource[Any], namespace: str) -> list[dict[str, Any]] | None:
        return list_if_allowed(cluster.client, resource.path(namespace))

    return UsageSource(
        objects,
        cluster.namespace,
        requested=bool(cluster.requested_namespace),
        metrics=lambda namespace: pod_metrics(cluster.client, namespace),
    ).read()


def _print_once(board: ClusterUsage, view: View, wide: bool) -> None:
    import shutil

    from pumice.cli.top.queue_usage import NO_PODS
    from pumice.cli.top.usage_table import bar_legend, cluster_summary, usage_lines
    from pumice.cli.top.workload_table import workload_lines
    from pumice.cli.top.workload_usage import View

    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else PLAIN_COLUMNS
    if view is not View.QUEUES:
        if board.workloads is None:
            board.notes.append(NO_PODS)
        else:
            echo(cluster_summary(board))
            for line in workload_lines(board, view, columns, wide=wide, cut=terminal):
                echo(line)
    elif board.queues_known:
        echo(cluster_summary(board))
        for line in usage_lines(board, columns, wide=wide, cut=terminal):
            echo(line)
        echo(bar_legend())
    for note in board.notes:
        echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
