"""Where the commands are mounted: ``vqueues`` and its like, ``vcctl``, and the groups of ``pumice``."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from pumice import __version__
from pumice.cli.cluster import job_description, job_run, jobs, queue_changes, queue_deletion, queues
from pumice.cli.cluster.command import SETTINGS, in_namespace, where
from pumice.cli.program import run_program


@click.group(context_settings=SETTINGS)
@where
def queue(**_: Any) -> None:
    """Show, make, change and delete the queues of a cluster."""


@click.group(context_settings=SETTINGS)
@where
@in_namespace
def job(**_: Any) -> None:
    """Submit, show, suspend, resume and cancel jobs."""


@click.group(context_settings=SETTINGS)
@where
@in_namespace
@click.version_option(__version__, prog_name="vcctl", message="%(prog)s (Pumice) %(version)s")
def vcctl(**_: Any) -> None:
    """Queues and jobs of a cluster, with the verbs of Volcano's vcctl.

    \b
    Exit status: 0 as asked; 1 not found, refused, or nobody answers; 2 bad usage or input.
    """


for command in (
    queues.tree,
    queues.list_queues,
    queues.children,
    queues.get,
    queue_changes.create,
    queue_changes.operate,
    queue_deletion.delete,
):
    queue.add_command(command)

for command in (jobs.list_jobs, jobs.get, job_description.view, job_run.run, jobs.suspend, jobs.resume, jobs.delete):
    job.add_command(command)

vcctl.add_command(queue)
vcctl.add_command(job)

PROGRAMS: dict[str, click.Command] = {
    "vcctl": vcctl,
    "vqueues": queues.tree,
    "vjobs": jobs.list_jobs,
    "vsub": job_run.run,
    "vcancel": jobs.delete,
    "vsuspend": jobs.suspend,
    "vresume": jobs.resume,
}
"""The programs beside ``pumice``, each with the command that it is."""


def _program(name: str) -> NoReturn:
    run_program(PROGRAMS[name], name)


def run_vcctl() -> None:
    """The entry point of ``vcctl``."""
    _program("vcctl")


def run_vqueues() -> None:
    """The entry point of ``vqueues``."""
    _program("vqueues")


def run_vjobs() -> None:
    """The entry point of ``vjobs``."""
    _program("vjobs")


def run_vsub() -> None:
    """The entry point of ``vsub``."""
    _program("vsub")


def run_vcancel() -> None:
    """The entry point of ``vcancel``."""
    _program("vcancel")


def run_vsuspend() -> None:
    """The entry point of ``vsuspend``."""
    _program("vsuspend")


def run_vresume() -> None:
    """The entry point of ``vresume``."""
    _program("vresume")
