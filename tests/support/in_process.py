"""Commands of ``pumice`` in this process: for tests of many calls, where a process for each would take too long."""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.testing import CliRunner

from pumice.cli.main import cli


@dataclass(frozen=True)
class Answered:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


def pumice(*arguments: object) -> Answered:
    """Run ``pumice`` with these arguments."""
    found = CliRunner().invoke(cli, [str(each) for each in arguments], standalone_mode=False)
    if isinstance(found.exception, click.ClickException):
        return Answered(found.exception.exit_code, found.stdout, found.exception.format_message())
    if found.exception is not None:
        raise found.exception
    return Answered(found.return_value or 0, found.stdout, found.stderr)
