"""``vcctl jobflow`` and ``vcctl jobtemplate``: both have the same commands, as in Volcano."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import IO, Any

import click

from pumice.cli.cluster.cluster_command import (
    CONTEXT_SETTINGS,
    Cluster,
    ClusterCommand,
    cluster_options,
    namespace_option,
    on_cluster,
)
from pumice.cli.cluster.command_objects import wait_option
from pumice.cli.cluster.flow_table import JOB_FLOW, JOB_TEMPLATE, FlowKind, FlowTable
from pumice.cli.cluster.manifest_file import read_manifests
from pumice.cli.cluster.name_arguments import all_names
from pumice.cli.cluster.name_completion import object_names
from pumice.cli.cluster.object_actions import delete_objects
from pumice.cli.cluster.object_printer import (
    full_object,
    object_name,
    output_option,
    print_objects,
    report_missing,
)
from pumice.cli.command_group import SuggestingGroup
from pumice.cli.terminal import echo, echo_values

Handler = Callable[..., Any]


def flow_group(kind: FlowKind) -> click.Group:
    """The commands for a kind."""

    @click.group(kind.word, cls=SuggestingGroup, context_settings=CONTEXT_SETTINGS)
    @cluster_options
    @namespace_option
    def group(**_: Any) -> None:
        pass

    group.help = f"Create, show and delete {kind.title}s."
    for command in (_create(kind), _list(kind), _get(kind), _describe(kind), _delete(kind)):
        group.add_command(command)
    return group


def _names_of(kind: FlowKind) -> Callable[[Handler], Handler]:
    """The names that a command is about, handed to it as ``wanted``: as arguments, or by Volcano's option."""
    complete = object_names(kind.load_resource)

    def decorate(function: Handler) -> Handler:
        @click.argument("names", metavar="NAME...", nargs=-1, shell_complete=complete)
        @click.option("-N", "--name", "others", multiple=True, shell_complete=complete, help="Name; same as NAME.")
        @functools.wraps(function)
        def call(names: tuple[str, ...], others: tuple[str, ...], **parameters: Any) -> Any:
            return function(wanted=list(dict.fromkeys((*names, *others))), **parameters)

        return call

    return decorate


def _create(kind: FlowKind) -> click.Command:
    examples = f"""
        # The {kind.title}s in a file
        {{me}} -f nightly.yaml
    """

    @click.command("create", cls=ClusterCommand, examples=examples, help=f"Create the {kind.title}s in a file.")
    @click.option("-f", "--file", type=click.File(), required=True, help="YAML file; - reads standard input.")
    @on_cluster(namespaced=True)
    def create(cluster: Cluster, file: IO[str]) -> None:
        for manifest in read_manifests(file, kind.resource, cluster.requested_namespace):
            named = (manifest.get("metadata") or {}).get("namespace")
            made = cluster.client.create(kind.resource.path(named or cluster.namespace), manifest)
            echo(f"{object_name(made, kind.resource)} created")

    return create


def _list(kind: FlowKind) -> click.Command:
    examples = """
        # Those of your namespace, and of all
        {me}
        {me} -A
    """

    @click.command("list", cls=ClusterCommand, examples=examples, help=f"List {kind.title}s.")
    @output_option
    @on_cluster(namespaced=True, everywhere=True)
    def list_objects(cluster: Cluster, output: str) -> None:
        table = FlowTable(kind, everywhere=cluster.all_namespaces)
        path = kind.resource.path(cluster.scope)
        shown = print_objects(cluster.client, path, None, table, output, watch=False)
        if not shown and output in ("table", "wide"):
            place = f"in namespace {cluster.scope}; -A looks in all" if cluster.scope else "in any namespace"
            echo(f"no {kind.word}s {place}", err=True)

    return list_objects


def _get(kind: FlowKind) -> click.Command:
    examples = """
        # One of them
        {me} nightly

        # Everything that the API says of it
        {me} nightly -o yaml
    """

    @click.command("get", cls=ClusterCommand, examples=examples, help=f"Show {kind.title}s by their names.")
    @_names_of(kind)
    @output_option
    @on_cluster(namespaced=True)
    def get(cluster: Cluster, wanted: list[str], output: str) -> int:
        table = FlowTable(kind, all_names(tuple(wanted), ()))
        path = kind.resource.path(cluster.namespace)
        print_objects(cluster.client, path, None, table, output, watch=False, alone=len(wanted) == 1)
        return report_missing(kind.resource, wanted, table.existing_names)

    return get


def _describe(kind: FlowKind) -> click.Command:
    examples = """
        # All of your namespace, as the API has them
        {me}

        # One of them, as JSON
        {me} nightly -o json
    """
    summary = f"Show {kind.title}s as the API has them: those of these names, or all."

    @click.command("describe", cls=ClusterCommand, examples=examples, help=summary)
    @_names_of(kind)
    @click.option("-o", "--format", "output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
    @on_cluster(namespaced=True)
    def describe(cluster: Cluster, wanted: list[str], output: str) -> int:
        table = FlowTable(kind, wanted)
        rows = table.rows(cluster.client.list(kind.resource.path(cluster.namespace)).items)
        for i, row in enumerate(rows.values()):
            if i and output == "yaml":
                echo("---")
            echo_values(full_object(row.document or {}, kind.resource), output)
        return report_missing(kind.resource, wanted, table.existing_names)

    return describe


def _delete(kind: FlowKind) -> click.Command:
    also = " The jobs of a flow are deleted with it." if kind is JOB_FLOW else ""
    examples = """
        # One of them
        {me} nightly

        # Those that a file contains
        {me} -f nightly.yaml
    """

    @click.command("delete", cls=ClusterCommand, examples=examples, help=f"Delete {kind.title}s.{also}")
    @_names_of(kind)
    @click.option("-f", "--file", type=click.File(), help="Delete those in a YAML file; - reads standard input.")
    @wait_option(60, "the object is deleted")
    @on_cluster(namespaced=True)
    def delete(cluster: Cluster, wanted: list[str], file: IO[str] | None, wait: float) -> int:
        if file is None:
            names = [(cluster.namespace, name) for name in all_names(tuple(wanted), ())]
        elif wanted:
            raise click.UsageError("a NAME cannot be combined with --file")
        else:
            abouts = [one["metadata"] for one in read_manifests(file, kind.resource, cluster.requested_namespace)]
            names = [(about.get("namespace") or cluster.namespace, str(about.get("name") or "")) for about in abouts]
        return delete_objects(cluster, kind.resource, names, wait)

    return delete


jobflow = flow_group(JOB_FLOW)
jobtemplate = flow_group(JOB_TEMPLATE)
