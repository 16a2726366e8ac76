"""``queue create``: creates a queue from options of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.name_arguments import QUEUE_NAME_HELP, one_name
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_printer import full_object, object_name
from pumice.cli.cluster.resource_quantities import parse_quantities
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document


@click.command(
    "create",
    cls=ClusterCommand,
    examples="""
        # A queue below root, with twice the weight of a queue of weight 1
        {me} research --weight 2

        # One below it, with a part of its own and a hard limit
        {me} vision --parent research --deserved cpu=16,nvidia.com/gpu=4 --capability nvidia.com/gpu=8

        # One in which a single user gets half of its part at most, and each of several at least a quarter
        {me} shared --user-limit-factor 0.5 --min-user-limit-percent 25

        # What would be made
        {me} vision --parent research --dry-run
    """,
)
@click.argument("name", metavar="NAME", default="")
@click.option("-n", "-N", "--name", "other", default="", help=QUEUE_NAME_HELP)
@click.option("-p", "--parent", default="", shell_complete=queue_names, help="The queue above. [default: root]")
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="Its part among its siblings. [default: 1]")
@click.option("--deserved", metavar="RESOURCES", callback=parse_quantities, help="Its own part: cpu=16,memory=64Gi.")
@click.option("--guarantee", metavar="RESOURCES", callback=parse_quantities, help="What is kept free for it.")
@click.option("--capability", metavar="RESOURCES", callback=parse_quantities, help="The most it may ever use.")
@click.option("--min-user-limit-percent", type=click.IntRange(0, 100), help="What each of several users can count on.")
@click.option("--user-limit-factor", type=float, help="How often its own part one user may have; -1: any amount.")
@click.option("--priority", type=click.IntRange(min=0), help="Siblings with a higher one are served first.")
@click.option("--reclaimable/--no-reclaimable", default=None, help="Whether others may take back from it.")
@click.option(
    "--dequeue-strategy", type=click.Choice(["fifo", "traverse"]), help="fifo: one that does not fit stops it."
)
@click.option("--protected", is_flag=True, help="Refuse to delete it, or a queue above it.")
@click.option("--dry-run", is_flag=True, help="Print it, and make nothing.")
@click.option("-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="How to print what was made.")
@on_cluster()
def create(
    cluster: Cluster,
    name: str,
    other: str,
    parent: str,
    deserved: dict[str, str],
    guarantee: dict[str, str],
    capability: dict[str, str],
    protected: bool,
    dry_run: bool,
    output: str | None,
    **fields: Any,
) -> None:
    """Make a queue.

    A parent takes no jobs: a queue with jobs gets no children.
    """
    from pumice.kube.resources import QUEUES

    wanted = one_name(name, other, needed=True)
    spec: dict[str, Any] = {
        "parent": parent or "root",
        "weight": fields["weight"],
        "deserved": deserved or None,
        "guarantee": {"resource": guarantee} if guarantee else None,
        "capability": capability or None,
        "minUserLimitPercent": fields["min_user_limit_percent"],
        "userLimitFactor": _user_limit_factor(fields["user_limit_factor"]),
        "priority": fields["priority"],
        "reclaimable": fields["reclaimable"],
        "dequeueStrategy": fields["dequeue_strategy"],
    }
    metadata: dict[str, Any] = {"name": wanted}
    if protected:
        metadata["annotations"] = {"pumice.dev/protected": "true"}
    queue: Document = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": metadata,
        "spec": {field: value for field, value in spec.items() if value is not None},
    }
    if dry_run:
        echo_values(queue, "json" if output == "json" else "yaml")
        return
    made = cluster.client.create(QUEUES.path(), queue)
    if output in ("json", "yaml"):
        echo_values(full_object(made, QUEUES), output)
    else:
        echo(object_name(made, QUEUES) + ("" if output else " created"))


def _user_limit_factor(factor: float | None) -> float | None:
    """The factor as objects have it, whole numbers as such."""
    import math

    if factor is None:
        return None
    if not math.isfinite(factor) or (factor <= 0 and factor != -1):
        raise click.UsageError(f"--user-limit-factor {factor:g}: give a number above 0, or -1 for any amount")
    return int(factor) if factor.is_integer() else factor
