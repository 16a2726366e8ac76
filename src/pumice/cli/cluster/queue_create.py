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

        # A child queue with deserved resources and an upper limit
        {me} vision --parent research --deserved cpu=16,nvidia.com/gpu=4 --capability nvidia.com/gpu=8

        # A queue in which one user gets at most half of its share, and each active user at least a quarter
        {me} shared --user-limit-factor 0.5 --min-user-limit-percent 25

        # Print the manifest only
        {me} vision --parent research --dry-run
    """,
)
@click.argument("name", metavar="NAME", default="")
@click.option("-n", "-N", "--name", "other", default="", help=QUEUE_NAME_HELP)
@click.option("-p", "--parent", default="", shell_complete=queue_names, help="Parent queue. [default: root]")
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="Weight among its siblings. [default: 1]")
@click.option(
    "--deserved",
    metavar="RESOURCES",
    callback=parse_quantities,
    help="Deserved resources, for example cpu=16,memory=64Gi.",
)
@click.option("--guarantee", metavar="RESOURCES", callback=parse_quantities, help="Resources reserved for the queue.")
@click.option(
    "--capability", metavar="RESOURCES", callback=parse_quantities, help="Upper limit of the resources it may use."
)
@click.option(
    "--min-user-limit-percent", type=click.IntRange(0, 100), help="Minimum share of each active user, in percent."
)
@click.option(
    "--user-limit-factor", type=float, help="Limit of one user, as a multiple of the queue's share; -1: no limit."
)
@click.option(
    "--priority", type=click.IntRange(min=0), help="Queues with a higher priority are served before their siblings."
)
@click.option("--reclaimable/--no-reclaimable", default=None, help="Whether other queues may reclaim from it.")
@click.option(
    "--dequeue-strategy",
    type=click.Choice(["fifo", "traverse"]),
    help="fifo: a job that does not fit blocks the jobs behind it.",
)
@click.option("--protected", is_flag=True, help="Refuse to delete the queue or a queue above it.")
@click.option("--dry-run", is_flag=True, help="Print the queue without creating it.")
@click.option(
    "-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="Output format of the created object."
)
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
    """Create a queue.

    A parent queue takes no jobs, so a queue that has jobs cannot get children.
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
        raise click.UsageError(f"--user-limit-factor {factor:g}: must be greater than 0, or -1 for no limit")
    return int(factor) if factor.is_integer() else factor
