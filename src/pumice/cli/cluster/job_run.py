"""``job run``, which is ``vsub``: a job of equal pods, written on the command line; or jobs from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.job_table import USER_ANNOTATION, queue_of, requests_of, tasks_of
from pumice.cli.cluster.manifest_file import read_manifests
from pumice.cli.cluster.name_completion import priority_class_names, queue_names
from pumice.cli.cluster.object_printer import full_object, object_name
from pumice.cli.cluster.process_jobs import as_process, generated_name, has_process_nodes
from pumice.cli.cluster.resource_quantities import parse_quantities
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

DEFAULT_IMAGE = "busybox"
DEFAULT_REQUESTS = "cpu=1,memory=100Mi"
TASK_NAME = "main"
GPU = "nvidia.com/gpu"
SECOND = 1_000_000
RUN_SECONDS = "pumice.dev/run-seconds"
FAIL_CODE = "pumice.dev/fail"
ROUTING_REASON = "pumice.dev/routed"


class RunCommand(ClusterCommand):
    """A command that accepts another command line after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments after ``--`` unparsed."""
        here = args.index("--") if "--" in args else len(args)
        ctx.meta[__name__] = args[here + 1 :]
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


def parse_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """A duration in whole seconds, rounded up."""
    from pumice.model.duration import DurationError, microseconds_of

    try:
        return None if text is None else -(-microseconds_of(text) // SECOND)
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
@click.option(
    "-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="Output format of the created object."
)
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

    Arguments after -- are the command of the containers. Without NAME, the job is named after the command.
    """
    ctx = click.get_current_context()
    command = ctx.meta.get(__name__, ())
    if name and other and name != other:
        raise click.UsageError(f"two names given: {name} and {other}; put a command for the pods after --")
    if filename is not None:
        from pumice.kube.resources import JOBS

        _reject_other_options(ctx)
        jobs = read_manifests(filename, JOBS, cluster.requested_namespace)
    elif not (name or other or command):
        raise click.UsageError("a NAME, a command after --, or a file with -f, is required")
    else:
        options = {**given, "command": command}
        if command and _uses_default_image(ctx) and has_process_nodes(cluster):
            options = as_process(given, command, clean=clean_env)
        jobs = [job_manifest(name or other or generated_name(command), **options)]
    if dry_run:
        for i, job in enumerate(jobs):
            if i and output != "json":
                echo("---")
            echo_values(job, "json" if output == "json" else "yaml")
        return
    made = [_submit_job(cluster, job, output, quiet=wait) for job in jobs]
    if wait:
        from pumice.cli.cluster.job_wait import JobWatcher

        ctx.exit(max([JobWatcher(cluster.client, job).wait() for job in made], default=0))


def _uses_default_image(ctx: click.Context) -> bool:
    return ctx.get_parameter_source("image") is not click.core.ParameterSource.COMMANDLINE


def job_manifest(name: str, *, command: Sequence[str] = (), folder: str = "", **given: Any) -> Document:
    """The Job that the options describe. Fields without an option are left to the defaults of the cluster."""
    from pumice.kube.resources import JOBS

    requests = given["requests"]
    if given["gpus"] is not None:
        if GPU in requests:
            raise click.UsageError(f"--gpus cannot be combined with {GPU} in --requests")
        requests = {**requests, GPU: str(given["gpus"])}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource} | given["limits"]
    container: dict[str, Any] = {
        "name": TASK_NAME,
        "image": given["image"],
        "command": list(command),
        "workingDir": folder,
        "env": [{"name": key, "value": value} for key, value in given["env"].items()],
        # Of devices and the like a limit is required, and must equal the request.
        "resources": _without_empty({"requests": requests, "limits": limits}),
    }
    annotations = {RUN_SECONDS: _number_text(given["run_seconds"]), FAIL_CODE: _number_text(given["fail"])}
    pod = {
        "metadata": _without_empty({"labels": given["label"], "annotations": _without_empty(annotations)}),
        "spec": _without_empty(
            {
                "restartPolicy": "Never",
                "activeDeadlineSeconds": given["seconds"],
                "nodeSelector": given["node_selector"],
                "containers": [_without_empty(container)],
            }
        ),
    }
    about = {
        "name": name,
        "labels": dict(given["label"]),
        "annotations": _without_empty({USER_ANNOTATION: given["user"]}),
    }
    spec = {
        "queue": given["queue"],
        "minAvailable": given["least"],
        "priorityClassName": given["priority"],
        "schedulerName": given["scheduler"],
        "maxRetry": given["max_retry"],
        "ttlSecondsAfterFinished": given["ttl"],
        "tasks": [{"name": TASK_NAME, "replicas": given["replicas"], "template": _without_empty(pod)}],
    }
    if given["least"] > given["replicas"]:
        raise click.UsageError(f"--min {given['least']} must not be greater than --replicas {given['replicas']}")
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": _without_empty(about),
        "spec": _without_empty(spec),
    }


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove empty fields; 0 is kept."""
    return {name: value for name, value in fields.items() if value not in ("", None, {}, [])}


def _number_text(number: float | None) -> str:
    return "" if number is None else f"{number:g}" if number < 1e6 else f"{number:.0f}"


def _reject_other_options(ctx: click.Context) -> None:
    """Reject options that a file makes useless, instead of ignoring them."""
    beside = {"filename", "dry_run", "wait", "output", "kubeconfig", "context", "namespace"}
    for param in ctx.command.params:
        typed = ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE
        if typed and param.name not in beside:
            raise click.UsageError(f"{max(param.opts, key=len)} cannot be combined with --filename")
    if ctx.meta.get(__name__):
        raise click.UsageError("a command cannot be combined with --filename")


def _submit_job(cluster: Cluster, job: Document, output: str | None, *, quiet: bool = False) -> Document:
    """Create a job and print what became of it; ``quiet``: on standard error, because its output follows."""
    from pumice.kube.resources import JOBS

    named = (job.get("metadata") or {}).get("namespace")
    made = cluster.client.create(JOBS.path(named or cluster.namespace), job)
    if output in ("json", "yaml"):
        echo_values(full_object(made, JOBS), output)
        return made
    if output == "name":
        echo(object_name(made, JOBS))
        return made
    queue = queue_of(made)
    echo(f"{object_name(made, JOBS)} created" + (f" in queue {queue}" if queue else ""), err=quiet)
    if routed := (made["metadata"].get("annotations") or {}).get(ROUTING_REASON):
        echo(f"  {routed}", err=quiet)
    for resource, hint in _unoffered_resources(cluster, made):
        echo(f"{click.style('warning:', fg='yellow')} no node offers {resource}{hint}; the job waits for one", err=True)
    return made


def _unoffered_resources(cluster: Cluster, job: Document) -> Iterator[tuple[str, str]]:
    """The requested resources that no node offers, each with a suggestion; none if the user may not list nodes."""
    from pumice.cli.cluster.denied_lists import list_if_allowed
    from pumice.input_errors import did_you_mean
    from pumice.kube.resources import NODES

    requested = {name for task in tasks_of(job.get("spec") or {}) for name in requests_of(task)}
    unusual = requested - {"cpu", "memory", "ephemeral-storage"}
    nodes = list_if_allowed(cluster.client, NODES.path()) if unusual else None
    if not nodes:
        return
    offered = {name for node in nodes for name in (node.get("status") or {}).get("allocatable") or ()}
    for name in sorted(unusual - offered):
        short = next((one for one in sorted(offered) if one.rpartition("/")[2] == name), "")
        yield name, f", did you mean '{short}'?" if short else did_you_mean(name, offered)
