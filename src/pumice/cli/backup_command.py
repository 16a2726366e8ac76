"""``pumice backup`` and ``pumice restore``: a data directory as one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from pumice.cli.terminal import echo


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def backup(directory: Path, file: Path) -> None:
    """Copy a data directory of pumice up into a file.

    DIR may be in use: FILE is the state of one moment, with all writes that were acknowledged before it. FILE holds all
    objects, Secrets too, and only its owner can read it. It does not hold the decision log, certificates and token.

    The copy is checked. Exit status 1, and no FILE, if DIR is damaged or FILE exists.
    """
    from kubesim.storage import DataDamaged
    from kubesim.storage.backup import back_up
    from pumice.embedded.identity import PUMICE

    try:
        back_up(directory, file, PUMICE)
    except DataDamaged as error:
        raise click.ClickException(str(error)) from None
    except FileExistsError:
        raise click.ClickException(f"{file} exists; name a new file") from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    echo(f"backup of {directory} in {file}")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def restore(file: Path, directory: Path) -> None:
    """Make a data directory for pumice up from a backup.

    DIR must not have data: move an old pumice.db away first. Revisions are those of the backup, so restart clients that
    watch.
    """
    from kubesim.storage import DataDamaged, DataInUse
    from kubesim.storage.backup import restore as restore_file
    from pumice.embedded.identity import PUMICE

    try:
        restore_file(file, directory.absolute(), PUMICE)
    except (DataDamaged, DataInUse) as error:
        raise click.ClickException(str(error)) from None
    except FileExistsError:
        raise click.ClickException(f"{directory} has data already: move its {PUMICE.database} away first") from None
    except OSError as error:
        raise click.ClickException(f"{directory}: {error.strerror}") from None
    echo(f"{directory} restored from {file}")
