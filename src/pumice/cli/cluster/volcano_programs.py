"""The programs and groups in which the commands are mounted: ``vcctl``, ``vqueues`` and others, ``pumice queue``."""

from __future__ import annotations

from typing import Any, NoReturn

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
from pumice.cli.entry_point import run_program


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

PROGRAMS: dict[str, click.Command] = {
    "vcctl": vcctl,
    "vqueues": queue_get.tree,
    "vjobs": job_commands.list_jobs,
    "vsub": job_run.run,
    "vcancel": job_commands.delete,
    "vsuspend": job_commands.suspend,
    "vresume": job_commands.resume,
}
"""The programs beside ``pumice``, each with the command that it is."""


def _run(name: str) -> NoReturn:
    run_program(PROGRAMS[name], name)


def run_vcctl() -> None:
    """The entry point of ``vcctl``."""
    _run("vcctl")


def run_vqueues() -> None:
    """The entry point of ``vqueues``."""
    _run("vqueues")


def run_vjobs() -> None:
    """The entry point of ``vjobs``."""
    _run("vjobs")


def run_vsub() -> None:
    """The entry point of ``vsub``."""
    _run("vsub")


def run_vcancel() -> None:
    """The entry point of ``vcancel``."""
    _run("vcancel")


def run_vsuspend() -> None:
    """The entry point of ``vsuspend``."""
    _run("vsuspend")


def run_vresume() -> None:
    """The entry point of ``vresume``."""
    _run("vresume")
