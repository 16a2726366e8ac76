"""``pumice fsck``: checks the consistency of a data directory."""

from __future__ import annotations

from pathlib import Path

import click

from pumice.cli.terminal import echo, print_error

NOT_DATA_DIRECTORY = 2


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_context
def fsck(context: click.Context, directory: Path) -> None:
    """Check a data directory of pumice up.

    DIR may be in use by a running pumice up. Nothing is changed; pumice up --repair repairs.

    Exit status: 0 clean, 1 errors found, 2 not a data directory.
    """
    from kubesim import kinds
    from kubesim.storage.directory_lock import holder_of
    from kubesim.storage.errors import DataDamaged
    from kubesim.storage.fsck import MAX_FINDINGS, check_directory
    from kubesim.stored_objects import ObjectChecker
    from pumice import crds
    from pumice.embedded.identity import PUMICE

    holder = holder_of(directory)
    if holder:
        echo(f"{directory} is in use by {holder}")
    try:
        checker = ObjectChecker(kinds.resources(), crds.definitions())
        findings = check_directory(directory, PUMICE, object_problem=checker.problem)
    except DataDamaged as error:
        print_error(str(error))
        context.exit(NOT_DATA_DIRECTORY)
    for finding in findings:
        echo(f"{click.style('WRONG', fg='red')} {finding}")
    if not findings:
        echo(f"{click.style('CLEAN', fg='green')} {directory}")
        return
    more = " or more" if len(findings) == MAX_FINDINGS else ""
    echo(f"{len(findings)}{more} finding{'' if len(findings) == 1 else 's'} in {directory}")
    context.exit(1)
