"""A new log from what can be read of a damaged one.

The new log has the newest usable entry of every object, and no history, so clients list anew. The damaged files are
kept beside it under another name: nothing is deleted. An object whose newest entry cannot be used is as it was before
that entry, if the log still had that; an object that was deleted by it is back.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.storage.directory_lock import DirectoryLock
from kubesim.storage.errors import DataDamaged
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log, readable_text
from kubesim.storage.log_entries import LogEntry, SetAside, entry_problem
from kubesim.storage.newest_revision import newest_path, read_newest

WRITTEN_AT_ONCE = 1000


class Repair(NamedTuple):
    """What a repair has done."""

    kept: int
    """How many objects the new log has."""
    dropped: list[SetAside]
    """The entries that could be read but not used, newest revisions only."""
    unreadable: int
    """How many revisions SQLite could not read."""
    damaged: Path
    """Where the damaged database is now."""


def repair_directory(directory: Path, identity: ServerIdentity = KUBESIM) -> Repair | None:
    """Repair a data directory that is not in use; None if nothing is wrong with it.

    Raises DataDamaged if nothing can be read: then only a backup helps.
    """
    path = directory / identity.database
    if not path.exists():
        return None
    holder = DirectoryLock.acquire(directory, identity.program)
    try:
        if not check_directory(directory, identity, most=1):
            return None
        return _rebuild(path, identity)
    finally:
        holder.release()


def _rebuild(path: Path, identity: ServerIdentity) -> Repair:
    fresh = path.with_name(f"{path.name}.repaired")
    _remove(fresh)
    dropped: dict[str, SetAside] = {}
    newest: dict[str, LogEntry] = {}
    unreadable = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = readable_text
        committed, checksums_after = read_newest(path), _checksums_after(connection)
        last = max(_last_revision(connection), committed)
        if not last:
            raise DataDamaged(f"{path} cannot be repaired, because nothing can be read of it: restore a backup")
        for found in _entries(connection, last, with_checksums=checksums_after is not None):
            if found is None:
                unreadable += 1
                continue
            entry, checksum = found
            checked = checksums_after is not None and entry.revision > checksums_after
            problem = entry_problem(entry, checksum, checked=checked)
            if problem:
                dropped[str(entry.key)] = SetAside(str(entry.key), entry.revision, problem)
            elif entry.deleted:
                newest.pop(entry.key, None)
            else:
                newest[entry.key] = entry
    if not newest and unreadable:
        raise DataDamaged(f"{path} cannot be repaired, because no object can be read of it: restore a backup")
    _write(fresh, sorted(newest.values()), last)
    for key in [key for key, lost in dropped.items() if key in newest and newest[key].revision > lost.revision]:
        del dropped[key]
    return Repair(len(newest), [*dropped.values()], unreadable, _exchange(path, fresh))


def _entries(
    connection: sqlite3.Connection, last: int, *, with_checksums: bool
) -> Iterator[tuple[LogEntry, object] | None]:
    """Every entry up to a revision, oldest first; None for one that cannot be read."""
    checksum = "checksum" if with_checksums else "NULL"
    one = f"SELECT revision, key, previous, deleted, value, {checksum} FROM log WHERE revision = ?"
    for revision in range(1, last + 1):  # one by one, so that a damaged page costs its own entries only
        try:
            rows = connection.execute(one, (revision,)).fetchall()
        except sqlite3.Error:
            yield None
            continue
        yield from ((LogEntry._make(row[:5]), row[5]) for row in rows)


def _last_revision(connection: sqlite3.Connection) -> int:
    found = [0]
    for question in ("SELECT max(revision) FROM log", "SELECT max(value) FROM meta WHERE name = 'compacted'"):
        with suppress(sqlite3.Error):
            ((value,),) = connection.execute(question)
            found += [value] if isinstance(value, int) else []
    return max(found)


def _checksums_after(connection: sqlite3.Connection) -> int | None:
    try:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(log)")]
        if "checksum" not in columns:
            return None
        ((value,),) = connection.execute("SELECT value FROM meta WHERE name = 'checksums_after'")
    except (sqlite3.Error, ValueError):
        return 0
    return value if isinstance(value, int) else 0


def _write(path: Path, entries: list[LogEntry], last: int) -> None:
    """A log of these entries alone, compacted up to the newest revision that anyone may have seen."""
    log = Log(path)
    try:
        for start in range(0, len(entries), WRITTEN_AT_ONCE):
            log.append([entry._replace(previous=0) for entry in entries[start : start + WRITTEN_AT_ONCE]])
        log.compact(last)
        while log.sweep():
            pass
    finally:
        log.close()


def _exchange(path: Path, fresh: Path) -> Path:
    """Put the new log in the place of the damaged one, which gets another name."""
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    for suffix in ("-wal", ""):  # the log last: until then it is found under its name
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
    for leftover in (path.with_name(f"{path.name}-shm"), newest_path(path)):
        leftover.unlink(missing_ok=True)
    fresh.rename(path)
    newest_path(fresh).rename(newest_path(path))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return kept


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-newest", ".unfinished"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
