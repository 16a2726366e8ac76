"""``job list`` and ``get``, ``suspend``, ``resume`` and ``delete``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster, told
from pumice.cli.cluster.command_objects import carried_out, gone, send, untaken, wait_option
from pumice.cli.cluster.job_table import JobView, phase_of
from pumice.cli.cluster.name_arguments import jobs_by_name
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_printer import look, miss, not_found, object_name, output_option, watch_option
from pumice.cli.cluster.queue_tree import tree
from pumice.cli.terminal import complain, echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

SUSPENDED = ("Aborting", "Aborted")
OVER = ("Completed", "Failed", "Terminated", "Completing", "Terminating")


@click.command(
    "list",
    cls=ClusterCommand,
    examples="""
        # The jobs of your namespace, and of all
        {me}
        {me} -A

        # Those in the queue dev or below it
        {me} -A -q dev

        # With user, priority, tasks and what each pod asks for
        {me} -o wide

        # Stay, and print every line that changes
        {me} -w
    """,
)
@click.option("-q", "--queue", default="", shell_complete=queue_names, help="Only those in this queue or below it.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only those with these labels: a=b,c!=d.")
@output_option
@watch_option
@on_cluster(namespaced=True, everywhere=True)
def list_jobs(cluster: Cluster, queue: str, selector: str, output: str, watch: bool) -> None:
    """List jobs: where they stand, and their pods by phase."""
    from pumice.kube.resources import QUEUES

    queues = None
    if queue:
        documents = cluster.client.list(QUEUES.path()).items
        queues = [line.name for _, line in tree(documents).below(queue)]
        if not queues:
            raise click.ClickException(not_found(QUEUES, queue, [str(each["metadata"]["name"]) for each in documents]))
    view = JobView(queues=queues, everywhere=cluster.everywhere, wide=output == "wide")
    query = {"labelSelector": selector} if selector else None
    shown = look(cluster.client, view.resource.path(cluster.scope), query, view, output, watch=watch)
    if not shown and output in ("table", "wide"):
        place = f"in namespace {cluster.scope}; -A looks in all" if cluster.scope else "in any namespace"
        echo(f"no jobs {f'of queue {queue} ' if queue else ''}{place}", err=True)


@click.command(
    "get",
    cls=ClusterCommand,
    examples="""
        # One job
        {me} train

        # Everything that the API says of it
        {me} train -o yaml

        # Stay, and print what changes
        {me} train -w
    """,
)
@jobs_by_name
@output_option
@watch_option
@on_cluster(namespaced=True)
def get(cluster: Cluster, wanted: list[str], output: str, watch: bool) -> int:
    """Show jobs by their names."""
    view = JobView(wanted, wide=output == "wide")
    query = {"fieldSelector": f"metadata.name={wanted[0]}"} if len(wanted) == 1 else None
    path = view.resource.path(cluster.namespace)
    look(cluster.client, path, query, view, output, watch=watch, alone=len(wanted) == 1)
    missing = [name for name in wanted if name not in view.known]
    if missing and query:
        view.known = [name for _, name in cluster.client.names(path)]
    return miss(view.resource, missing, view.known) if missing else 0


@click.command(
    "suspend",
    cls=ClusterCommand,
    examples="""
        # Stop a job and keep it: its pods go, and what they held is free
        {me} train

        # Two of them, in another namespace
        {me} train evaluate -n research
    """,
)
@jobs_by_name
@wait_option(10, "it is carried out")
@on_cluster(namespaced=True)
def suspend(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Suspend jobs: stop their pods, and keep the jobs to be resumed."""

    def order(job: Document, path: str, subject: str) -> None:
        phase = phase_of(job)
        if phase in OVER:
            raise click.ClickException(f"{subject} is {phase}: there is nothing to suspend")
        _order(cluster, "AbortJob", job, path, subject, lambda job: phase_of(job) in SUSPENDED, "suspended", wait)

    return _each(cluster, wanted, order)


@click.command(
    "resume",
    cls=ClusterCommand,
    examples="""
        # Let a suspended job run again
        {me} train
    """,
)
@jobs_by_name
@wait_option(10, "it is carried out")
@on_cluster(namespaced=True)
def resume(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Resume suspended jobs: they wait for their turn again, and start anew."""

    def order(job: Document, path: str, subject: str) -> None:
        phase = phase_of(job)
        if phase not in SUSPENDED:
            raise click.ClickException(f"{subject} is {phase}: only a suspended job can be resumed")
        _order(cluster, "ResumeJob", job, path, subject, lambda job: phase_of(job) not in SUSPENDED, "resumed", wait)

    return _each(cluster, wanted, order)


@click.command(
    "delete",
    cls=ClusterCommand,
    examples="""
        # Cancel a job: it goes, and its pods with it
        {me} train

        # Several
        {me} train evaluate -n research
    """,
)
@jobs_by_name
@wait_option(60, "it is gone")
@on_cluster(namespaced=True)
def delete(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Cancel jobs: delete them, and their pods with them."""
    client = cluster.client

    def go(job: Document, path: str, subject: str) -> None:
        uid = str(job["metadata"].get("uid") or "")
        client.delete(path, uid=uid, propagation="Background")
        if wait and not gone(client, path, uid, wait):
            raise click.ClickException(f"{subject} is being deleted, but not gone after {wait:g} s")
        echo(f"{subject} deleted")

    return _each(cluster, wanted, go)


def _each(cluster: Cluster, names: list[str], act: Callable[[Document, str, str], None]) -> int:
    """Do it to each job. What goes wrong with one does not keep it from the others; gives the exit status."""
    from pumice.kube.client.api_errors import ApiError
    from pumice.kube.resources import JOBS

    status = 0
    for name in names:
        path = JOBS.path(cluster.namespace, name)
        try:
            job = cluster.client.get(path)
            act(job, path, object_name(job, JOBS))
        except ApiError as error:
            if error.not_found:
                known = [known for _, known in cluster.client.names(JOBS.path(cluster.namespace))]
                complain(f"{not_found(JOBS, name, known)} (namespace {cluster.namespace})")
            else:
                complain(told(error))
            status = 1
        except click.ClickException as error:
            complain(error.format_message())
            status = 1
    return status


def _order(
    cluster: Cluster,
    order: str,
    job: Document,
    path: str,
    subject: str,
    as_ordered: Callable[[Document], bool],
    done: str,
    wait: float,
) -> None:
    from pumice.kube.resources import JOBS

    command = send(cluster.client, order, job, JOBS, cluster.namespace)
    if not wait:
        echo(f"{subject} {order} sent")
        return
    found = carried_out(cluster.client, command, path, as_ordered, wait)
    if found is None:
        raise click.ClickException(untaken(subject, order, wait))
    echo(f"{subject} {done}" if as_ordered(found) else f"{subject} is {phase_of(found)}: {order} was taken")
