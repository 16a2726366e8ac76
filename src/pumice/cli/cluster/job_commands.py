"""``job list`` and ``get``, ``suspend``, ``resume`` and ``delete``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.command_objects import (
    create_command,
    not_executed,
    wait_for_effect,
    wait_option,
)
from pumice.cli.cluster.current_user import current_user
from pumice.cli.cluster.job_table import JobTable, phase_of
from pumice.cli.cluster.name_arguments import jobs_by_name
from pumice.cli.cluster.name_completion import queue_names
from pumice.cli.cluster.object_actions import ObjectAction, delete_objects, for_each_object
from pumice.cli.cluster.object_printer import (
    not_found_message,
    output_option,
    print_objects,
    report_missing,
    watch_option,
)
from pumice.cli.cluster.queue_tree import queue_tree
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

SUSPENDED_PHASES = ("Aborting", "Aborted")
FINISHED_PHASES = ("Completed", "Failed", "Terminated", "Completing", "Terminating")


@click.command(
    "list",
    cls=ClusterCommand,
    examples="""
        # The jobs of your namespace, and of all
        {me}
        {me} -A

        # Those in the queue dev or below it
        {me} -A -q dev

        # Yours, in all namespaces
        {me} -A --me

        # With user, priority, tasks, what each pod asks for, and what the job's pods really use
        {me} -o wide

        # Watch, and print every line that changes
        {me} -w
    """,
)
@click.option("-q", "--queue", default="", shell_complete=queue_names, help="List only jobs in this queue or below it.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label selector, for example a=b,c!=d.")
@click.option("--me", is_flag=True, help="List only your own jobs.")
@output_option
@watch_option
@on_cluster(namespaced=True, everywhere=True)
def list_jobs(cluster: Cluster, queue: str, selector: str, me: bool, output: str, watch: bool) -> None:
    """List jobs with their phases and pod counts."""
    from pumice.kube.resources import QUEUES

    queues = None
    if queue:
        documents = cluster.client.list(QUEUES.path()).items
        queues = [line.name for _, line in queue_tree(documents).subtree(queue)]
        if not queues:
            raise click.ClickException(
                not_found_message(QUEUES, queue, [str(each["metadata"]["name"]) for each in documents])
            )
    user = current_user(cluster.client) if me else ""
    used = _measured_use(cluster) if output == "wide" and not watch else None
    view = JobTable(queues=queues, user=user, everywhere=cluster.all_namespaces, wide=output == "wide", used=used)
    query = {"labelSelector": selector} if selector else None
    shown = print_objects(cluster.client, view.resource.path(cluster.scope), query, view, output, watch=watch)
    if not shown and output in ("table", "wide"):
        place = f"in namespace {cluster.scope}; -A looks in all" if cluster.scope else "in any namespace"
        of = (f"of queue {queue} " if queue else "") + (f"of user {user} " if user else "")
        echo(f"no jobs {of}{place}", err=True)


def _measured_use(cluster: Cluster) -> dict[tuple[str, str], str]:
    """What the pods of jobs use, where somebody measures it."""
    from pumice.cli.cluster.measured_use import format_use, pod_metrics, use_by_job

    return {job: format_use(use) for job, use in use_by_job(pod_metrics(cluster.client, cluster.scope)).items()}


@click.command(
    "get",
    cls=ClusterCommand,
    examples="""
        # One job
        {me} train

        # Everything that the API says of it
        {me} train -o yaml

        # Watch, and print changes
        {me} train -w
    """,
)
@jobs_by_name
@output_option
@watch_option
@on_cluster(namespaced=True)
def get(cluster: Cluster, wanted: list[str], output: str, watch: bool) -> int:
    """Show jobs by their names."""
    view = JobTable(wanted, wide=output == "wide")
    query = {"fieldSelector": f"metadata.name={wanted[0]}"} if len(wanted) == 1 else None
    path = view.resource.path(cluster.namespace)
    print_objects(cluster.client, path, query, view, output, watch=watch, alone=len(wanted) == 1)
    missing = [name for name in wanted if name not in view.existing_names]
    if missing and query:
        view.existing_names = [name for _, name in cluster.client.names(path)]
    return report_missing(view.resource, missing, view.existing_names) if missing else 0


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
@wait_option(10, "the command is executed")
@on_cluster(namespaced=True)
def suspend(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Suspend jobs: delete their pods and keep the jobs for a later resume."""

    def order(job: Document, path: str, subject: str) -> None:
        phase = phase_of(job)
        if phase in FINISHED_PHASES:
            raise click.ClickException(f"{subject} cannot be suspended: its phase is {phase}")
        _send_command(
            cluster, "AbortJob", job, path, subject, lambda job: phase_of(job) in SUSPENDED_PHASES, "suspended", wait
        )

    return _for_each_job(cluster, wanted, order)


@click.command(
    "resume",
    cls=ClusterCommand,
    examples="""
        # Let a suspended job run again
        {me} train
    """,
)
@jobs_by_name
@wait_option(10, "the command is executed")
@on_cluster(namespaced=True)
def resume(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Resume suspended jobs: they are queued again and start from the beginning."""

    def order(job: Document, path: str, subject: str) -> None:
        phase = phase_of(job)
        if phase not in SUSPENDED_PHASES:
            raise click.ClickException(f"{subject} cannot be resumed: its phase is {phase}, not Aborted")
        _send_command(
            cluster, "ResumeJob", job, path, subject, lambda job: phase_of(job) not in SUSPENDED_PHASES, "resumed", wait
        )

    return _for_each_job(cluster, wanted, order)


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
@wait_option(60, "the object is deleted")
@on_cluster(namespaced=True)
def delete(cluster: Cluster, wanted: list[str], wait: float) -> int:
    """Cancel jobs: delete them with their pods."""
    from pumice.kube.resources import JOBS

    return delete_objects(cluster, JOBS, [(cluster.namespace, name) for name in wanted], wait)


def _for_each_job(cluster: Cluster, names: list[str], act: ObjectAction) -> int:
    from pumice.kube.resources import JOBS

    return for_each_object(cluster, JOBS, [(cluster.namespace, name) for name in names], act)


def _send_command(
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

    command = create_command(cluster.client, order, job, JOBS, cluster.namespace)
    if not wait:
        echo(f"{subject} {order} sent")
        return
    found = wait_for_effect(cluster.client, command, path, as_ordered, wait)
    if found is None:
        raise click.ClickException(not_executed(subject, order, wait))
    echo(f"{subject} {done}" if as_ordered(found) else f"{subject} is {phase_of(found)}: {order} was executed")
