"""The groups in which the commands are mounted: ``vcctl``, ``pumice queue``, ``pumice job``."""

from __future__ import annotations

from typing import Any

import click

from pumice import __version__
from pumice.cli.cluster import (
    flow_commands,
    job_commands,
    job_run,
    job_view,
    queue_create,
    queue_delete,
    queue_get,
    queue_operate,
)
from pumice.cli.cluster.cluster_command import CONTEXT_SETTINGS, cluster_options, namespace_option
from pumice.cli.command_group import SuggestingGroup


@click.group(cls=SuggestingGroup, context_settings=CONTEXT_SETTINGS)
@cluster_options
def queue(**_: Any) -> None:
    """Show, create, change and delete the queues of a cluster."""


@click.group(cls=SuggestingGroup, context_settings=CONTEXT_SETTINGS)
@cluster_options
@namespace_option
def job(**_: Any) -> None:
    """Submit, show, suspend, resume and cancel jobs."""


@click.group(cls=SuggestingGroup, context_settings=CONTEXT_SETTINGS)
@cluster_options
@namespace_option
@click.version_option(__version__, prog_name="vcctl", message="%(prog)s (Pumice) %(version)s")
def vcctl(**_: Any) -> None:
    """Queues, jobs and flows of a cluster, with the verbs of Volcano's vcctl.

    \b
    Exit status: 0 success; 1 not found, refused or unreachable; 2 invalid usage or input.
    """


for command in (
    queue_get.tree,
    queue_get.list_queues,
    queue_get.children,
    queue_get.get,
    queue_create.create,
    queue_operate.operate,
    queue_delete.delete,
):
    queue.add_command(command)

for command in (
    job_commands.list_jobs,
    job_commands.get,
    job_view.view,
    job_run.run,
    job_commands.suspend,
    job_commands.resume,
    job_commands.delete,
):
    job.add_command(command)

vcctl.add_command(queue)
vcctl.add_command(job)
vcctl.add_command(flow_commands.jobflow)
vcctl.add_command(flow_commands.jobtemplate)
