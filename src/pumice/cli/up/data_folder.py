"""The data directory of ``pumice up``: where it is, its token and kubeconfig, and its repair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pumice.cli.terminal import echo


def repair_folder(folder: Path) -> None:
    """Repair a data directory, and print what was lost."""
    from kubesim.storage import DataDamaged, DataInUse
    from kubesim.storage.repair import repair_directory
    from pumice.embedded.identity import PUMICE

    try:
        done = repair_directory(folder, PUMICE)
    except (DataDamaged, DataInUse) as error:
        raise click.ClickException(str(error)) from None
    if done is None:
        echo(f"{folder} needs no repair", err=True)
        return
    echo(f"repaired {folder}: {done.kept} objects kept; the damaged database is {done.damaged.name}", err=True)
    for lost in done.dropped:
        echo(f"dropped {lost}", err=True)
    if done.unreadable:
        echo(
            f"{done.unreadable} revisions cannot be read: objects that they changed are as they were before, and"
            " objects that they deleted are back",
            err=True,
        )


def check_token(token: str | None) -> None:
    """Reject tokens that clients cannot send. An empty variable is most likely a missing secret."""
    import os

    if token is None and os.environ.get("PUMICE_TOKEN") != "":  # to click an empty variable is no variable
        return
    if not token:
        raise click.UsageError("--token (or PUMICE_TOKEN) must not be empty; set a token or unset it")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise click.UsageError("--token (or PUMICE_TOKEN) must consist of printable ASCII characters without spaces")


def private_token(folder: Path) -> str:
    """The token of a cluster through which real processes are started, in a folder that only its owner may read."""
    from kubebase.private_folder import make_private
    from kubesim.http.auth import load_or_create_token

    try:
        make_private(folder)
        return load_or_create_token(folder)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None


def default_data_folder() -> Path:
    """The default data directory, by the XDG conventions."""
    import os

    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "pumice"


@contextmanager
def kubeconfig_path(wanted: Path | None, folder: Path | None) -> Iterator[Path]:
    """The path of the kubeconfig; without a data directory, in a temporary directory that is deleted at the end."""
    beside = wanted or (folder / "kubeconfig" if folder else None)
    if beside:
        yield beside
        return
    import os
    from tempfile import TemporaryDirectory

    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    with TemporaryDirectory(prefix="pumice-", dir=runtime if os.path.isdir(runtime) else None) as made:
        yield Path(made) / "kubeconfig"
