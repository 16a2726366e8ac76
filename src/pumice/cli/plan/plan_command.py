"""``pumice plan``: what a change would do to entitlements, running tasks and waiting jobs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.name_completion import option_value
from pumice.cli.duration_type import DurationType
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.plan.plan_basis import PlanBasis

CHANGES = 1
REFUSED = 2


class _NoPlanError(click.ClickException):
    exit_code = REFUSED


class _PlanCommand(ClusterCommand):
    """1 means that the change does something, so what prevents a plan, such as an unreachable cluster, is 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if error.exit_code == CHANGES:
                raise _NoPlanError(error.message) from None
            raise


@click.command(
    cls=_PlanCommand,
    examples="""
        # What would this file do to the running cluster?
        {me} -f queues.yaml

        # As a comment for a pull request
        {me} -f queues/ -o markdown

        # What if a queue, or a node, were gone?
        {me} --delete queue/dev --delete node/gpu-07

        # Without a cluster: on the end of a scenario, or of a decision log
        {me} -f change.yaml --scenario cluster.yaml
        {me} -f change.yaml --log decisions/

        # The last day once more, without and with the change
        {me} -f change.yaml --log decisions/ --replay 24h
    """,
)
@on_cluster(namespaced=True)
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    multiple=True,
    help="Manifests that would be applied, or a scheduler configuration; may be repeated.",
)
@click.option("--delete", "deletions", metavar="KIND/NAME", multiple=True, help="An object that would be deleted.")
@click.option("--scenario", "scenarios", metavar="FILE", multiple=True, help="Start at the end of this scenario.")
@click.option(
    "--log",
    type=click.Path(exists=True, path_type=Path),
    help="Start at the end of this decision log (file or folder).",
)
@click.option("--at", "moment", metavar="TIME", help="With --log: start at this time, as in pumice replay --at.")
@click.option(
    "--replay",
    "replayed",
    type=DurationType(),
    help="With --log: also simulate this last part of the log, without and with the change.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration in force now. [default: the one that the running scheduler publishes]",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "markdown"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def plan(
    cluster: Cluster,
    files: tuple[str, ...],
    deletions: tuple[str, ...],
    scenarios: tuple[str, ...],
    log: Path | None,
    moment: str | None,
    replayed: int | None,
    config: Path | None,
    output: str,
) -> int:
    """Show what a change would do to the shares of a cluster. Nothing is changed.

    Compares the cluster at rest with and without the change, if nothing else happens: the entitlement of every queue,
    which tasks would be evicted, which waiting jobs would start, and what admission would refuse. FILE may contain
    queues, nodes, ResourceQuotas with namespace weights, priority classes, jobs, and the scheduler configuration,
    alone or in its ConfigMap. Objects are merged as kubectl apply does. Without --scenario or --log, the cluster of
    the kubeconfig is read.

    \b
    Exit status: 0 nothing would change, 1 something would, 2 a part is refused, or there is no plan (invalid input, no
    access to the cluster).
    """
    from pumice.plan.change_file import read_change
    from pumice.plan.plan_report import make_plan

    if not files and not deletions:
        raise click.UsageError("nothing to plan: give -f FILE or --delete KIND/NAME")
    if scenarios and log is not None:
        raise click.UsageError("--scenario and --log exclude each other")
    if (moment is not None or replayed is not None) and log is None:
        raise click.UsageError("--at and --replay need --log")
    local = bool(scenarios) or log is not None
    namespace = (option_value(click.get_current_context(), "namespace") if local else cluster.namespace) or "default"
    change = read_change(files, deletions, namespace)
    found = make_plan(_basis(cluster, scenarios, log, moment, config), change)
    if replayed is not None and log is not None:
        from pumice.cli.plan.replay_comparison import replay_values

        found.values["replay"] = replay_values(log, replayed, change)
    _print(found.values, output)
    return REFUSED if found.is_refused else CHANGES if found.changes_anything else 0


def _basis(
    cluster: Cluster, scenarios: tuple[str, ...], log: Path | None, moment: str | None, config: Path | None
) -> PlanBasis:
    from pumice.cli.plan.plan_sources import cluster_basis, log_basis, scenario_basis

    if scenarios:
        return scenario_basis(scenarios, config)
    if log is None:
        return cluster_basis(cluster, config)

    from pumice.cli.replay_command import parse_time

    return log_basis(log, parse_time(moment, datetime.now().astimezone()) if moment else None)


def _print(values: dict[str, object], output: str) -> None:
    if output in ("json", "yaml"):
        echo_values(values, output)
        return

    from pumice.cli.plan.plan_output import markdown_lines, text_lines

    for line in markdown_lines(values) if output == "markdown" else text_lines(values):
        echo(line)
