"""``job run``, which is ``vsub``: a job of equal pods, written on the command line; or jobs from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.job_manifest import GPU, job_manifest
from pumice.cli.cluster.job_support import check_order, check_support
from pumice.cli.cluster.job_table import queue_of, requests_of, tasks_of
from pumice.cli.cluster.manifest_file import read_manifests
from pumice.cli.cluster.name_completion import priority_class_names, queue_names
from pumice.cli.cluster.object_printer import full_object, object_name
from pumice.cli.cluster.process_jobs import as_process, generated_name, has_process_nodes, is_text, passed_variables
from pumice.cli.cluster.resource_quantities import parse_quantities
from pumice.cli.cluster.script_options import find_script, script_options
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

DEFAULT_IMAGE = "busybox"
DEFAULT_REQUESTS = "cpu=1,memory=100Mi"
SECOND = 1_000_000
FORMATS = ("name", "json", "yaml")
ROUTING_REASON = "pumice.dev/routed"


class RunCommand(ClusterCommand):
    """A command that accepts another command line after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments after ``--`` unparsed. What a script among them sets are defaults."""
        here = args.index("--") if "--" in args else len(args)
        ctx.meta[__name__] = words = args[here + 1 :]
        script = find_script(words)
        if script is not None and not ctx.resilient_parsing:
            ctx.default_map = {**(ctx.default_map or {}), **script_options(self, ctx, script)}
        return super().parse_args(ctx, args[:here])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add ``[-- COMMAND ...]`` to the usage."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ...]"]


def parse_pairs(ctx: click.Context, param: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE``, several times."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{text!r} given, but KEY=VALUE is needed", ctx, param)
        found[key] = value
    return found


def parse_array_text(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """The indexes of an array, checked."""
    if not text:
        return text
    from pumice.admission.jobs.job_arrays import ArrayError, parse_array

    try:
        parse_array(text)
        return text
    except ArrayError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def parse_upstream(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> list[str]:
    """The jobs that a job starts after."""
    if not texts:
        return []
    from pumice.admission.jobs.job_order import OrderError, parse_after

    try:
        return [str(upstream) for text in texts for upstream in parse_after(text)]
    except OrderError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def parse_output_file(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """The absolute path of a file whose folder exists."""
    from pathlib import Path

    if text in FORMATS:
        raise click.BadParameter(f"{text} is a format; use -o {text}, or ./{text} for a file of this name", ctx, param)
    path = Path.cwd() / text if text else None
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist", ctx, param)
    return str(path) if path else ""


def parse_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """A duration in whole seconds, rounded up."""
    if text is None:
        return None
    from pumice.model.duration import DurationError, microseconds_of

    try:
        return -(-microseconds_of(text) // SECOND)
    except DurationError as error:
        raise click.BadParameter(str(error).partition(": ")[2], ctx, param) from None


@click.command(
    "run",
    cls=RunCommand,
    examples="""
        # Four pods with a gpu each in the queue research; they start together
        {me} train -q research -r 4 -m 4 -R cpu=2,nvidia.com/gpu=1 --image pytorch -- python train.py

        # A pod with two gpus on a labelled node, for an hour at most
        {me} tune --gpus 2 --time 1h --node-selector gpu=a100 --image pytorch -- python tune.py

        # A script where nodes run pods as processes: in this folder, with this environment; its output follows
        {me} -R cpu=2,nvidia.com/gpu=1 --wait -- ./train.sh

        # A hundred runs of a script, ten at a time; each finds its number in $PUMICE_ARRAY_INDEX
        {me} sweep --array 1-100%10 --output sweep-%a.out -- ./train.sh

        # A job that starts when all of them have succeeded
        {me} report --after sweep -- ./report.sh

        # On simulated nodes: pods that run for half a minute
        {me} sleep -r 10 --run-seconds 30

        # The manifest, to change it and apply it
        {me} train -r 4 --dry-run > train.yaml
        {me} -f train.yaml
    """,
)
@click.argument("name", metavar="[NAME]", default="")
@click.option("-N", "--name", "other", default="", help="Name of the job, as in Volcano's commands; same as NAME.")
@click.option(
    "-q",
    "--queue",
    default="",
    shell_complete=queue_names,
    help="Leaf queue, or a parent queue for the least used leaf below it. [default: that of the namespace, else that "
    "of the scheduler's configuration, else the least used leaf]",
)
@click.option("-r", "--replicas", type=click.IntRange(min=1), default=1, show_default=True, help="Number of pods.")
@click.option(
    "-m",
    "--min",
    "least",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Minimum number of pods that start together (gang).",
)
@click.option(
    "-i",
    "--image",
    default=DEFAULT_IMAGE,
    show_default=True,
    help="Container image. Without it, a command runs as a process where the cluster has nodes for that.",
)
@click.option(
    "--array",
    metavar="INDEXES",
    default="",
    callback=parse_array_text,
    help="A pod for each index, such as 1-100, 1-9:2 or 3,5,8; with %N at most N of them at a time. Each has its index "
    "in PUMICE_ARRAY_INDEX.",
)
@click.option(
    "--after",
    metavar="JOB",
    multiple=True,
    callback=parse_upstream,
    help="Start when this job has completed, or with any:JOB when it has ended; may be repeated. If the job does not "
    "complete, this one fails without having started.",
)
@click.option(
    "--clean-env", is_flag=True, help="Do not pass your environment to a job that runs as a process; see --env."
)
@click.option(
    "-R",
    "--requests",
    metavar="RESOURCES",
    default=DEFAULT_REQUESTS,
    show_default=True,
    callback=parse_quantities,
    help="Resource requests of each pod.",
)
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help=f"GPUs of each pod; same as -R {GPU}=N.")
@click.option(
    "--time",
    "seconds",
    metavar="DURATION",
    callback=parse_seconds,
    help="Time limit of each pod, for example 90s or 1h30m; it fails when it runs longer. Simulated nodes ignore it.",
)
@click.option(
    "--output",
    "output_file",
    metavar="FILE",
    default="",
    callback=parse_output_file,
    help="Append the output to a file as well, if the job runs as a process; %j is the name of the job, %a the index "
    "in its array, %i the index of the pod.",
)
@click.option(
    "--node-selector",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Label that the nodes must have; may be repeated.",
)
@click.option("-L", "--limits", metavar="RESOURCES", callback=parse_quantities, help="Resource limits of each pod.")
@click.option(
    "-p",
    "--priority",
    default="",
    metavar="CLASS",
    shell_complete=priority_class_names,
    help="PriorityClass of the job.",
)
@click.option("-S", "--scheduler", default="", help="schedulerName of the pods. [default: set by the cluster]")
@click.option(
    "--run-seconds", type=click.FloatRange(min=0), help="Run time of the pods on simulated nodes. [default: unlimited]"
)
@click.option(
    "--fail", type=click.IntRange(1, 255), metavar="CODE", help="Exit code with which the pods fail on simulated nodes."
)
@click.option(
    "--max-retry", type=click.IntRange(min=0), help="Maximum number of runs, if policies restart the job. [default: 3]"
)
@click.option(
    "--ttl", type=click.IntRange(min=0), metavar="SECONDS", help="Delete the job this long after it finished."
)
@click.option("--user", default="", help="User of the job, if you may act for others. [default: you]")
@click.option(
    "--env",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Environment variable of the containers; may be repeated.",
)
@click.option(
    "--label",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Label of the job and its pods; may be repeated.",
)
@click.option(
    "-f",
    "--filename",
    type=click.File(encoding="utf-8"),
    help="Submit the jobs in a YAML file instead; - reads standard input.",
)
@click.option("--wait", is_flag=True, help="Print the output of the pods, and exit with the job's exit code.")
@click.option("--dry-run", is_flag=True, help="Print the job without submitting it.")
@click.option("-o", "output", type=click.Choice(FORMATS), help="Output format of the created object.")
@on_cluster(namespaced=True)
def run(
    cluster: Cluster,
    name: str,
    other: str,
    filename: IO[str] | None,
    dry_run: bool,
    wait: bool,
    output: str | None,
    clean_env: bool,
    **given: Any,
) -> None:
    """Submit a job of identical pods.

    Arguments after -- are the command of the containers. Without NAME, the job is named after the command. If the
    command is a script, comment lines at its beginning may set options, for example: #PUMICE -q research --time 2h
    """
    ctx = click.get_current_context()
    command = ctx.meta.get(__name__, ())
    if name and other and name != other and is_typed(ctx, "other"):
        raise click.UsageError(f"two names given: {name} and {other}; put a command for the pods after --")
    if filename is not None:
        from pumice.kube.resources import JOBS

        _reject_other_options(ctx)
        jobs = read_manifests(filename, JOBS, cluster.requested_namespace)
    elif not (name or other or command):
        raise click.UsageError("a NAME, a command after --, or a file with -f, is required")
    else:
        _check_array_options(ctx, given)
        _fit_requests(ctx, given)
        _check_words(command)
        options = {**given, "command": command}
        if command and not is_set(ctx, "image") and has_process_nodes(cluster):
            _tell_left_out(clean=clean_env)
            options = as_process(given, command, clean=clean_env)
        elif given["output_file"]:
            raise click.UsageError("--output needs a command that runs as a process; see kubectl logs for the output")
        jobs = [job_manifest(name or other or generated_name(command), **options)]
    if dry_run:
        for i, job in enumerate(jobs):
            if i and output != "json":
                echo("---")
            echo_values(job, "json" if output == "json" else "yaml")
        return
    check_order(cluster, given["after"])
    for job in jobs:
        check_support(cluster, job)
    made = [_submit_job(cluster, job, output, quiet=wait) for job in jobs]
    if wait:
        from pumice.cli.cluster.job_wait import wait_for_jobs

        ctx.exit(wait_for_jobs(cluster.client, made))


def is_typed(ctx: click.Context, name: str) -> bool:
    """Whether a parameter stands on the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def is_set(ctx: click.Context, name: str) -> bool:
    """Whether a parameter stands on the command line or in the script."""
    return is_typed(ctx, name) or ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


def _fit_requests(ctx: click.Context, given: dict[str, Any]) -> None:
    """Request no more than the limits: lower requests that nobody has chosen, and reject others."""
    from kubebase.quantity import parse

    for resource, limit in (given["limits"] or {}).items():
        amount = given["requests"].get(resource, limit)
        if parse(amount).nano <= parse(limit).nano:
            continue
        if is_set(ctx, "requests"):
            raise click.UsageError(f"--requests {resource}={amount} is more than --limits {resource}={limit}")
        given["requests"] = {**given["requests"], resource: limit}


def _check_words(command: Sequence[str]) -> None:
    import os

    for word in command:
        if not is_text(word):
            raise click.UsageError(f"the command is not text (UTF-8): {os.fsencode(word)!r}")
    if command and not is_text(os.getcwd()):
        raise click.UsageError(f"the name of the current folder is not text (UTF-8): {os.getcwdb()!r}")


def _tell_left_out(*, clean: bool) -> None:
    """Name the variables that a job cannot be given."""
    import os

    left = [] if clean else [name for name in passed_variables() if not is_text(os.environ[name])]
    if left:
        what = f"not passed on, because they are not text (UTF-8): {', '.join(sorted(left))}"
        echo(f"{click.style('warning:', fg='yellow')} variables {what}", err=True)


def _check_array_options(ctx: click.Context, given: dict[str, Any]) -> None:
    """Reject what would contradict an array: its pods are counted by its indexes, and start on their own."""
    for name, option in (("replicas", "--replicas"), ("least", "--min")):
        if given["array"] and is_set(ctx, name):
            raise click.UsageError(f"{option} cannot be combined with --array")


def _reject_other_options(ctx: click.Context) -> None:
    """Reject options that a file makes useless, instead of ignoring them."""
    beside = {"filename", "dry_run", "wait", "output", "kubeconfig", "context", "namespace"}
    for param in ctx.command.params:
        if is_typed(ctx, param.name or "") and param.name not in beside:
            raise click.UsageError(f"{max(param.opts, key=len)} cannot be combined with --filename")
    if ctx.meta.get(__name__):
        raise click.UsageError("a command cannot be combined with --filename")


def _submit_job(cluster: Cluster, job: Document, output: str | None, *, quiet: bool = False) -> Document:
    """Create a job and print what became of it; ``quiet``: on standard error, because its output follows."""
    from pumice.kube.resource_name import JOB

    named = (job.get("metadata") or {}).get("namespace")
    made = cluster.client.create(JOB.path(named or cluster.namespace), job)
    if output in ("json", "yaml"):
        echo_values(full_object(made, JOB), output)
        return made
    if output == "name":
        echo(object_name(made, JOB))
        return made
    tell_created(made, quiet=quiet)
    for resource, hint in _unoffered_resources(cluster, made):
        echo(f"{click.style('warning:', fg='yellow')} no node offers {resource}{hint}; the job waits for one", err=True)
    return made


def tell_created(made: Document, *, quiet: bool) -> None:
    """Say that a job was created, and in which queue; ``quiet``: on standard error."""
    from pumice.kube.resource_name import JOB

    queue = queue_of(made)
    echo(f"{object_name(made, JOB)} created" + (f" in queue {queue}" if queue else ""), err=quiet)
    if routed := (made["metadata"].get("annotations") or {}).get(ROUTING_REASON):
        echo(f"  {routed}", err=quiet)


def _unoffered_resources(cluster: Cluster, job: Document) -> Iterator[tuple[str, str]]:
    """The requested resources that no node offers, each with a suggestion; none if the user may not list nodes."""
    requested = {name for task in tasks_of(job.get("spec") or {}) for name in requests_of(task)}
    unusual = requested - {"cpu", "memory", "ephemeral-storage"}
    if not unusual:
        return
    from pumice.cli.cluster.denied_lists import list_if_allowed
    from pumice.input_errors import did_you_mean
    from pumice.kube.resource_name import NODE

    nodes = list_if_allowed(cluster.client, NODE.path())
    if not nodes:
        return
    offered = {name for node in nodes for name in (node.get("status") or {}).get("allocatable") or ()}
    for name in sorted(unusual - offered):
        short = next((one for one in sorted(offered) if one.rpartition("/")[2] == name), "")
        yield name, f", did you mean '{short}'?" if short else did_you_mean(name, offered)
