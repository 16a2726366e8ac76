"""``pumice migrate``: what a move from Volcano or Kueue keeps, changes and loses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import cluster_access, cluster_options
from pumice.cli.entry_point import BAD_INPUT
from pumice.cli.terminal import echo, echo_values, print_error

if TYPE_CHECKING:
    from pumice.migrate.kueue_queues import ConvertedQueues
    from pumice.migrate.report import MigrationReport
    from pumice.migrate.source_objects import SourceObjects

VOLCANO, KUEUE = "volcano", "kueue"
SOMETHING_LOST = 1


@click.command()
@cluster_options
@click.option(
    "--from",
    "origin",
    type=click.Choice([VOLCANO, KUEUE]),
    default=VOLCANO,
    show_default=True,
    help="The scheduler that is replaced.",
)
@click.option(
    "--check", "check_only", is_flag=True, help="Only report; with --from kueue, do not print the converted Queues."
)
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read the objects from this file or folder instead of the cluster; may be repeated.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Format of the report; with --from kueue, yaml prints the converted Queues alone.",
)
@click.pass_context
def migrate(
    command: click.Context,
    kubeconfig: Path | None,
    context: str,
    origin: str,
    check_only: bool,
    files: tuple[str, ...],
    output: str,
) -> None:
    """Check a move from Volcano or Kueue, and convert Kueue's queues.

    Reads a cluster, or files with its objects, and changes nothing. Reports what would be lost, what would work
    differently, and what to do about it. --from kueue also prints Queues for the ClusterQueues, Cohorts and
    LocalQueues, as a manifest for kubectl apply --server-side.

    Exit status: 0 nothing would be lost, 1 something would be lost, 2 error.
    """
    if output == "yaml" and (origin == VOLCANO or check_only):
        raise click.UsageError("-o yaml prints converted Queues: use it with --from kueue and without --check")
    from pumice.migrate.kueue_queues import convert_kueue
    from pumice.migrate.volcano_check import check_volcano

    objects = _read_objects(command, kubeconfig, context, files)
    if origin == VOLCANO:
        report = check_volcano(objects)
        _print_report(report, output)
    else:
        converted = convert_kueue(objects)
        report = converted.report
        if check_only:
            _print_report(report, output)
        else:
            _print_converted(converted, output)
    command.exit(SOMETHING_LOST if report.lost else 0)


def _read_objects(
    command: click.Context, kubeconfig: Path | None, context: str, files: tuple[str, ...]
) -> SourceObjects:
    """The objects of the files, or of the cluster; an error ends the command with status 2."""
    from pumice.kube.client.api_errors import ApiError, UnreachableError
    from pumice.kube.client.sync_client import Client
    from pumice.migrate.source_objects import objects_from_cluster, objects_from_files

    if files:
        if kubeconfig or context:
            raise click.UsageError("-f reads files and no cluster: remove --kubeconfig and --context, or -f")
        return objects_from_files(files)
    client = Client(cluster_access(kubeconfig, context))
    try:
        return objects_from_cluster(client)
    except (ApiError, UnreachableError) as error:
        print_error(str(error))
        command.exit(BAD_INPUT)
    finally:
        client.close()


def _print_report(report: MigrationReport, output: str) -> None:
    if output == "json":
        echo_values(report.to_document(), "json")
        return
    for line in report.to_lines():
        echo(line)
    echo()
    number = len(report.lost)
    echo(f"{number} finding{'' if number == 1 else 's'} would be lost" if number else "nothing would be lost")


def _print_converted(converted: ConvertedQueues, output: str) -> None:
    """The manifest on standard output; the report beside it, so that the output can be piped into kubectl."""
    import yaml

    if output == "json":
        echo_values({"objects": converted.objects, "report": converted.report.to_document()}, "json")
        return
    if converted.objects:
        echo(yaml.safe_dump_all(converted.objects, sort_keys=False, explicit_start=True).rstrip())
    if output == "text":
        for line in converted.report.to_lines():
            echo(line, err=True)
