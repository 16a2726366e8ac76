"""Consistency check of a data directory.

It only reads; a directory in use can be checked as well, as of one moment. It checks the file itself (SQLite's
integrity check), the table ``meta``, that no commit is lost, and each entry of the log: that it matches its checksum,
that it continues the previous entry of its key, that its value is the object of that key and revision, and that
compaction has removed what it must and nothing else.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Container, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.storage.errors import DataDamaged
from kubesim.storage.log import FORMAT, format_error, read_format, readable_text
from kubesim.storage.log_entries import WRONG_TYPES, LogEntry, entry_problem
from kubesim.storage.newest_revision import lost_commits, read_newest

MAX_FINDINGS = 1000
"""The maximum number of findings."""


class Finding(NamedTuple):
    """A problem; with revision 0 and no key it concerns the file as a whole."""

    revision: int
    key: str
    problem: str

    def __str__(self) -> str:
        return f"revision {self.revision} of {self.key}: {self.problem}" if self.revision else self.problem


class _Meta(NamedTuple):
    compacted: int
    swept: int
    checksums_after: int | None
    """The last revision without a checksum; None: none has one."""


ObjectProblem = Callable[[str, bytes], str]
"""From the key and the value of an object to why it cannot be used; empty if it can."""


def check_directory(
    directory: Path,
    identity: ServerIdentity = KUBESIM,
    most: int = MAX_FINDINGS,
    object_problem: ObjectProblem = lambda key, value: "",
) -> list[Finding]:
    """All problems of a data directory. Raises DataDamaged if it is none, or of an unknown format.

    ``object_problem`` is asked about every object as it is now.
    """
    path = directory / identity.database
    if not path.is_file():
        raise DataDamaged(f"{directory} is no data directory: it has no {identity.database}")
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)) as connection:
            connection.text_factory = readable_text
            connection.execute("BEGIN")  # one moment for all that follows
            return list(islice(_findings(connection, path, identity, object_problem), most))
    except sqlite3.OperationalError as error:
        raise DataDamaged(f"{path} cannot be opened: {error}") from error


def read_only_uri(path: Path) -> str:
    """How SQLite opens a database to read it, also where it cannot create the files that go with a write-ahead log."""
    wal = path.with_name(f"{path.name}-wal")
    is_fixed = not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_fixed else ''}"


def _findings(
    connection: sqlite3.Connection, path: Path, identity: ServerIdentity, object_problem: ObjectProblem
) -> Iterator[Finding]:
    try:
        known_format = read_format(connection)
        if not known_format or known_format > FORMAT:
            raise DataDamaged(f"{path} {'is empty' if known_format == 0 else format_error(known_format, identity)}")
        for (message,) in connection.execute("PRAGMA integrity_check"):
            if message != "ok":
                yield _of_file(message)
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        found = [_of_file(f"meta: {problem}") for problem in _of_meta(meta)]
        yield from found
        if found:
            return
        ((newest,),) = connection.execute("SELECT max(revision) FROM log")
        lost = lost_commits(max(newest or 0, meta["compacted"]), read_newest(path))
        if lost:
            yield _of_file(f"the log {lost}")
        wrong: set[int] = set()
        for finding in _of_lines(connection, _Meta(meta["compacted"], meta["swept"], meta.get("checksums_after"))):
            wrong.add(finding.revision)
            yield finding
        yield from _of_objects(connection, wrong, object_problem)
    except sqlite3.DatabaseError as error:
        yield _of_file(f"SQLite cannot read {path.name}: {error}")


def _of_file(problem: str) -> Finding:
    return Finding(0, "", problem)


def _of_meta(meta: dict[str, Any]) -> Iterator[str]:
    for name in ("compacted", "swept", *(["checksums_after"] if meta["format"] > 1 else [])):
        value = meta.get(name)
        if not isinstance(value, int) or value < 0:
            yield f"{name} is {value!r}, not a revision"
            return
    if meta["swept"] > meta["compacted"]:
        yield f"swept up to revision {meta['swept']}, which is beyond what is compacted, {meta['compacted']}"


def _of_lines(connection: sqlite3.Connection, meta: _Meta) -> Iterator[Finding]:
    newest: dict[str, tuple[int, bool]] = {}
    checksum = "NULL" if meta.checksums_after is None else "checksum"
    lines = f"SELECT revision, key, previous, deleted, value, {checksum} FROM log ORDER BY revision"
    for *fields, found in connection.execute(lines):
        line = LogEntry._make(fields)
        revision, key = line.revision, line.key
        checked = meta.checksums_after is not None and revision > meta.checksums_after
        problem = entry_problem(line, found, checked=checked)
        if problem:
            yield Finding(revision, str(key), problem)
        if problem == WRONG_TYPES:
            newest[key] = (revision, bool(line.deleted))
            continue
        if revision < 1:
            yield Finding(revision, key, "revisions begin at 1")
        for fault in (*_of_chain(line, newest.get(key), meta), *_of_compaction(line, newest.get(key), meta)):
            yield Finding(revision, key, fault)
        newest[key] = (revision, bool(line.deleted))


def _of_objects(
    connection: sqlite3.Connection, wrong: Container[int], object_problem: ObjectProblem
) -> Iterator[Finding]:
    """What is wrong with the objects as they are now, apart from entries that are wrong themselves."""
    newest: dict[str, int] = {}
    for key, revision, deleted in connection.execute("SELECT key, revision, deleted FROM log ORDER BY revision"):
        newest[key] = 0 if deleted or revision in wrong else revision
    for key, revision in newest.items():
        for (value,) in connection.execute("SELECT value FROM log WHERE revision = ?", (revision,)):
            problem = object_problem(key, value)
            if problem:
                yield Finding(revision, key, problem)


def _of_chain(line: LogEntry, before: tuple[int, bool] | None, meta: _Meta) -> Iterator[str]:
    """An entry continues the previous one of its key, unless that was a deletion."""
    existed = before[0] if before and not before[1] else 0
    if line.previous == existed:
        pass
    elif existed:
        yield f"it continues revision {line.previous}, but the one before is {existed}"
    elif line.previous >= line.revision:
        yield f"it continues revision {line.previous}, which is not older"
    elif before and before[1]:
        yield f"it continues revision {line.previous}, but revision {before[0]} deleted it"
    elif line.revision > meta.swept:
        yield f"it continues revision {line.previous}, which is not there"
    if line.deleted and not line.previous:
        yield "it deletes what did not exist"


def _of_compaction(line: LogEntry, before: tuple[int, bool] | None, meta: _Meta) -> Iterator[str]:
    """Up to the swept revision, only the newest entry of each key is left."""
    if line.revision > meta.swept:
        return
    if before and not before[1]:
        yield f"revision {before[0]} before it should have been removed: it is swept up to {meta.swept}"
    if line.deleted:
        yield f"a deletion that should have been removed: it is swept up to {meta.swept}"
