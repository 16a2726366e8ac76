"""Names on a command line: given as arguments, or with the option ``--name`` of Volcano's commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pumice.cli.cluster.name_completion import job_names

QUEUE_NAME_HELP = "Name of the queue, as in Volcano's commands; same as NAME."
JOB_NAME_HELP = "Name of the job, as in Volcano's commands; same as NAME."


def one_name(name: str, other: str, *, needed: bool = False) -> str:
    """The name that was given, as an argument or by Volcano's option."""
    if name and other and name != other:
        raise click.UsageError(
            f"two names given: {name} and {other} (-n is the name of a queue; queues have no namespace)"
        )
    if needed and not (name or other):
        raise click.UsageError("a NAME is required")
    return name or other


def all_names(names: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
    """The names that were given, at least one."""
    found = list(dict.fromkeys((*names, *others)))
    if not found:
        raise click.UsageError("a NAME is required")
    return found


def jobs_by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The jobs that a command is about, handed to it as ``wanted``: as arguments, or by Volcano's option."""

    @click.argument("names", metavar="NAME...", nargs=-1, shell_complete=job_names)
    @click.option("-N", "--name", "others", multiple=True, shell_complete=job_names, help=JOB_NAME_HELP)
    @functools.wraps(function)
    def call(names: tuple[str, ...], others: tuple[str, ...], **parameters: Any) -> Any:
        return function(wanted=all_names(names, others), **parameters)

    return call
