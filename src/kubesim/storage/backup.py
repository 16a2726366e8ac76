"""Backup and restore of a data directory: one file, as of one moment, also while the directory is in use."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.storage.directory_lock import DirectoryLock
from kubesim.storage.errors import DataDamaged
from kubesim.storage.fsck import check_directory, read_only_uri
from kubesim.storage.newest_revision import newest_path


def back_up(directory: Path, target: Path, identity: ServerIdentity = KUBESIM) -> None:
    """Copy the database of a data directory into a new file, and check the copy.

    Raises DataDamaged if the directory has no database, or one that is damaged, and FileExistsError.
    """
    source = directory / identity.database
    if not source.is_file():
        raise DataDamaged(f"{directory} is no data directory: it has no {identity.database}")
    if target.exists():
        raise FileExistsError(target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:  # only its owner reads it
        copy = Path(folder) / identity.database
        _copy(source, copy)
        _require_clean(Path(folder), identity, f"{source} is damaged")
        _keep(copy, target)


def restore(source: Path, directory: Path, identity: ServerIdentity = KUBESIM) -> None:
    """Make a data directory of a backup. Raises DataDamaged if the backup is damaged, DataInUse and FileExistsError."""
    target = directory / identity.database
    if not source.is_file():
        raise DataDamaged(f"{source} is no file")
    holder = DirectoryLock.acquire(directory, identity.program)
    try:
        if target.exists():
            raise FileExistsError(target)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".restore.") as folder:
            copy = Path(folder) / identity.database
            _copy(source, copy)
            _require_clean(Path(folder), identity, f"{source} is damaged")
            for leftover in ("-wal", "-shm"):
                target.with_name(target.name + leftover).unlink(missing_ok=True)
            newest_path(target).unlink(missing_ok=True)
            _keep(copy, target)
    finally:
        holder.release()


def _copy(source: Path, target: Path) -> None:
    """By SQLite's online backup: as of one moment, with what is still in the write-ahead log."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with (
            closing(sqlite3.connect(read_only_uri(source), uri=True)) as reading,
            closing(sqlite3.connect(target)) as writing,
        ):
            reading.backup(writing)
            writing.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log beside it
    except sqlite3.Error as error:
        raise DataDamaged(f"{source} cannot be copied: {error}") from error


def _require_clean(folder: Path, identity: ServerIdentity, complaint: str) -> None:
    findings = check_directory(folder, identity, most=1)
    if findings:
        raise DataDamaged(f"{complaint}: {findings[0]}{identity.check_hint}")


def _keep(copy: Path, target: Path) -> None:
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    os.link(copy, target)  # unlike a rename, it replaces nothing
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
