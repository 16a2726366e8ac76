"""The programs beside ``pumice``: ``vcctl``, ``vqueues``, ``vsub`` and others.

A program loads the one command that it is: loading is most of the time that a short command takes.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    import click

PROGRAMS = {
    "vcctl": "command_groups.vcctl",
    "vqueues": "queue_get.tree",
    "vjobs": "job_commands.list_jobs",
    "vsub": "job_run.run",
    "vcancel": "job_commands.delete",
    "vsuspend": "job_commands.suspend",
    "vresume": "job_commands.resume",
}
"""The programs, each with the module and the name of its command."""


def load_program(name: str) -> click.Command:
    """The command that a program is."""
    from importlib import import_module

    module, _, command = PROGRAMS[name].partition(".")
    found: click.Command = getattr(import_module(f"pumice.cli.cluster.{module}"), command)
    return found


def _run(name: str) -> NoReturn:
    from pumice.cli.entry_point import run_program

    run_program(load_program(name), name)


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
    from pumice.cli.cluster.quick_submit import submit

    try:
        status = submit(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    if status is not None:
        sys.exit(status)
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
