"""The log in its SQLite file: one line for every revision.

    log(revision, key, previous, deleted, value, checksum)    previous: the key's revision before, 0 if it did not exist
    meta(name, value)                                         format, compacted, swept, checksums_after

The lines are only ever appended, and ``previous`` chains those of a key. That makes an index by key superfluous:
what a key was at an older revision stands in the first line after it, as ``previous``; what a compaction may
remove is what the lines up to its revision name as ``previous``. An index would double the work of every write
(its pages are all over the file, those of the log's end are few) to save some milliseconds at the start.

SQLite checks neither its pages nor what they hold, so each line has a checksum (``log_entries``), and every value that
is read is compared with it. Lines of format 1 have none: ``checksums_after`` is the last of them. What a damaged
write-ahead log has lost, the file ``newest`` tells (``newest_revision``).

Write-ahead logging with ``synchronous=FULL``: when ``append`` returns, its lines are on disk. Lines are written on
one connection, by one thread, and read on another, by another thread; neither waits for the other. In memory (no
path) both are the same connection, and a lock keeps the readers out while a batch is half written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.storage.errors import DataDamaged, StorageFailed
from kubesim.storage.log_entries import LogEntry, LogEntryHead, SetAside, checksum_of, entry_problem
from kubesim.storage.newest_revision import NewestRevision

FORMAT = 2
"""What this version writes, and the newest that it reads."""

PAGE_BYTES = 8192  # a handful of pods to a page: fewer pages to read for a list than with the usual 4096

MOST_LINES = 128
"""The most lines one INSERT writes: six parameters each, and some builds of SQLite take no more than 999."""

CHECKED_AT_ONCE = 500
"""How many lines the check at the start reads with one statement."""

SWEPT_AT_ONCE = 128
"""How many lines a step of a compaction removes: some milliseconds, then writers get their turn."""

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    previous INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    value BLOB NOT NULL,  -- after all that is read without it
    checksum INTEGER
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('format', 2), ('compacted', 0), ('swept', 0), ('checksums_after', 0);
COMMIT;
"""

_ONE_LINE = "SELECT revision, key, previous, deleted, value, checksum FROM log WHERE revision = ?"
_ADD_CHECKSUMS = """
BEGIN IMMEDIATE;
ALTER TABLE log ADD COLUMN checksum INTEGER;
INSERT INTO meta SELECT 'checksums_after', ifnull(max(revision), 0) FROM log;
UPDATE meta SET value = 2 WHERE name = 'format';
COMMIT;
"""


class Log:
    """An open log. ``append``, ``compact`` and ``sweep`` are for one thread, everything else for one other."""

    def __init__(self, path: Path | None, identity: ServerIdentity = KUBESIM) -> None:
        self.check_hint = identity.check_hint
        self._mark: NewestRevision | None = None
        self._name = str(path) if path else "the log in memory"
        self._alone: AbstractContextManager[Any] = nullcontext() if path else threading.Lock()
        try:
            if path:
                _open_file(path, unfinished := path.with_name(f"{path.name}.unfinished"))
            self._writing = _connect(str(path) if path else ":memory:")
        except (OSError, sqlite3.Error) as error:
            raise DataDamaged(f"{self._name} cannot be opened: {error}") from error
        try:
            _prepare(self._writing, self._name, identity, on_disk=path is not None)
            if path:
                unfinished.unlink(missing_ok=True)
            meta = dict(self._writing.execute("SELECT name, value FROM meta"))
            self.compacted: int = meta["compacted"]
            self._swept: int = meta["swept"]
            self.checksums_after: int = meta["checksums_after"]
            ((newest,),) = self._writing.execute("SELECT max(revision) FROM log")
            self._reading = self._writing
            if path:
                self._reading = _connect(str(path))
                self._reading.execute("PRAGMA query_only = ON")
        except BaseException as error:
            self._writing.close()
            if isinstance(error, sqlite3.Error | KeyError):
                raise DataDamaged(f"{self._name} cannot be read: {error}{self._hint(error)}") from error
            raise
        # The newest line may have been a deletion that is compacted away; its revision is taken all the same.
        self.newest: int = max(newest or 0, self.compacted)
        if path:
            try:
                self._mark = NewestRevision.open(path)
                self._mark.require_at_least(self.newest, path, identity.repair_hint)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file. The last to close it leaves no write-ahead log behind."""
        self._reading.close()
        self._writing.close()
        if self._mark:
            self._mark.close()

    # ---- writing ------------------------------------------------------------------------------------

    def append(self, batch: Sequence[LogEntry]) -> None:
        """Write lines, all or none of them. They are on disk when this returns."""
        # As few statements as possible: each releases the interpreter lock and waits to get it back.
        sizes = _sizes(len(batch))
        if len(sizes) == 1:
            with self._alone:
                self._rollback()
                _insert(self._writing, batch)  # a statement alone is a transaction
            self._note_newest(batch)
            return

        def insert(connection: sqlite3.Connection) -> None:
            start = 0
            for size in sizes:
                _insert(connection, batch[start : start + size])
                start += size

        self._transact(insert)
        self._note_newest(batch)

    def _note_newest(self, batch: Sequence[LogEntry]) -> None:
        if self._mark:
            self._mark.write(batch[-1].revision)

    def compact(self, revision: int) -> None:
        """Declare the history up to a revision gone. ``sweep`` removes it."""
        if revision > self.compacted:
            self._transact(lambda on: on.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,)))
            self.compacted = revision

    def sweep(self, at_once: int = SWEPT_AT_ONCE) -> bool:
        """Remove some compacted entries. Returns whether there are more. Resumes after an interruption.

        An entry names in ``previous`` the one that it supersedes; a deletion supersedes itself, too.
        """
        if self._swept >= self.compacted:
            return False
        found = self._writing.execute(
            "SELECT revision, previous, deleted FROM log WHERE revision > ? AND revision <= ? AND (previous OR deleted)"
            " ORDER BY revision LIMIT ?",
            (self._swept, self.compacted, at_once),
        ).fetchall()
        gone = [previous for _, previous, _ in found if previous]
        gone += [revision for revision, _, deleted in found if deleted]
        swept = found[-1][0] if len(found) == at_once else self.compacted

        def remove(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (_json(gone),))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'swept'", (swept,))

        self._transact(remove)
        self._swept = swept
        return swept < self.compacted

    def _transact(self, work: Callable[[sqlite3.Connection], object]) -> None:
        with self._alone:
            self._rollback()
            self._writing.execute("BEGIN IMMEDIATE")
            try:
                work(self._writing)
                self._writing.execute("COMMIT")
            except BaseException:
                self._rollback()
                raise

    def _rollback(self) -> None:
        """Undo a transaction that failed; also before the next, should that have failed, so that none joins another."""
        if self._writing.in_transaction:
            self._writing.execute("ROLLBACK")

    # ---- reading ------------------------------------------------------------------------------------

    def current(self) -> dict[str, int]:
        """Every key that exists, with its newest revision."""
        found: dict[str, int] = {}
        with self._alone:
            try:
                for key, revision, deleted in self._reading.execute(
                    "SELECT key, revision, deleted FROM log ORDER BY revision"
                ):
                    if deleted:
                        found.pop(key, None)
                    else:
                        found[key] = revision
            except sqlite3.Error as error:
                raise DataDamaged(f"{self._name} cannot be read: {error}{self._hint(error)}") from error
        return found

    def damaged(self, current: dict[str, int]) -> Iterator[SetAside]:
        """The keys whose newest line cannot be used, of those that ``current`` returned."""
        newest = sorted(current.items(), key=lambda item: item[1])
        for start in range(0, len(newest), CHECKED_AT_ONCE):
            part = newest[start : start + CHECKED_AT_ONCE]
            try:
                problems = self._problems([revision for _, revision in part])
            except StorageFailed:  # one of them is on a page that SQLite cannot read
                problems = {}
                for _, revision in part:
                    problems |= self._problems_of_one(revision)
            for key, revision in part:
                problem = problems.get((key, revision), "the log has no such revision")
                if problem:
                    yield SetAside(key, revision, problem)

    def _problems(self, revisions: Sequence[int]) -> dict[tuple[str, int], str]:
        """Why each of some lines, by key and revision, cannot be used; empty: it can."""
        found: dict[tuple[str, int], str] = {}
        for row in self._rows(revisions):
            entry = LogEntry._make(row[:5])
            checked = entry.revision > self.checksums_after
            found[entry.key, entry.revision] = entry_problem(entry, row[5], checked=checked)
        return found

    def _problems_of_one(self, revision: int) -> dict[tuple[str, int], str]:
        try:
            return self._problems((revision,))
        except StorageFailed:
            return {}

    def value(self, revision: int) -> bytes | None:
        """The value of a line, None if there is no such line. Raises DataDamaged if it is not what was written."""
        return self._values(self._read(_ONE_LINE, (revision,))).get(revision)

    def values(self, revisions: Sequence[int]) -> dict[int, bytes]:
        """The values of the entries that exist. Fastest if the revisions are sorted."""
        return self._values(self._rows(revisions))

    def _values(self, rows: list[Any]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for revision, key, previous, deleted, value, checksum in rows:
            if checksum != checksum_of(revision, key, previous, deleted, value) and (
                checksum is not None or revision > self.checksums_after
            ):
                raise DataDamaged(f"revision {revision} of {key} in {self._name} is damaged{self.check_hint}")
            found[revision] = value
        return found

    def _rows(self, revisions: Sequence[int]) -> list[Any]:
        # One statement for all: a long IN would be parsed each time. CROSS JOIN keeps the order of the revisions.
        return self._read(
            "SELECT revision, log.key, previous, deleted, log.value, checksum"
            " FROM json_each(?) AS wanted CROSS JOIN log ON log.revision = wanted.value",
            (_json(revisions),),
        )

    def heads(self, after: int, upto: int, limit: int) -> list[LogEntryHead]:
        """The next lines beyond a revision, without their values."""
        sql = (
            "SELECT revision, key, previous, deleted FROM log WHERE revision > ? AND revision <= ?"
            " ORDER BY revision LIMIT ?"
        )
        return list(map(LogEntryHead._make, self._read(sql, (after, upto, limit))))

    def before(self, prefix: str, after: int, upto: int) -> dict[str, int]:
        """What the keys that changed beyond ``after`` were at it: their revisions, 0 if they did not exist."""
        # From the newest to the oldest: of several lines of a key, the first after the revision has the last word.
        sql = (
            "SELECT key, previous FROM log WHERE revision > ? AND revision <= ? AND key >= ? AND key < ?"
            " ORDER BY revision DESC"
        )
        return dict(self._read(sql, (after, upto, prefix, prefix + "\U0010ffff")))

    def _read(self, sql: str, arguments: tuple[object, ...]) -> list[Any]:
        try:
            with self._alone:
                return self._reading.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise StorageFailed(f"{self._name} cannot be read: {error}") from error

    def _hint(self, error: Exception) -> str:
        known = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB  # not every error has a code
        return "" if known else self.check_hint


def _connect(name: str) -> sqlite3.Connection:
    # Explicit transactions. Another thread than the one that opens it uses it, but never two at a time.
    connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
    connection.text_factory = readable_text
    return connection


def readable_text(found: bytes) -> str:
    """The text of a column; a damaged one, which is no UTF-8, is text too, so that the others can be read."""
    return found.decode(errors="backslashreplace")


def _open_file(path: Path, unfinished: Path) -> None:
    """Make sure that a file is there. An empty one is a log only while ``unfinished`` says that it is being made.

    SQLite would take any other empty file for a new database, and a cluster whose data are lost would begin anew
    without a word.
    """
    if not path.exists():
        unfinished.touch(mode=0o600)
    elif not path.stat().st_size and not unfinished.exists():
        raise DataDamaged(f"{path} is empty: restore it from a backup, or delete it to start anew")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # readable by the owner only


def _prepare(connection: sqlite3.Connection, name: str, identity: ServerIdentity, *, on_disk: bool) -> None:
    """Make sure that the file is a log, and how it is written. An empty file becomes one."""
    known_format = read_format(connection)
    if known_format is None or known_format > FORMAT:
        raise DataDamaged(f"{name} {format_error(known_format, identity)}")
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if on_disk and mode != "wal":
        raise DataDamaged(f"{name} is on a file system without what SQLite's write-ahead log needs: use a local one")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # where fsync alone leaves it in the drive's cache
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    if known_format == 0:
        connection.executescript(_SCHEMA)
    elif known_format == 1:
        connection.executescript(_ADD_CHECKSUMS)


def read_format(connection: sqlite3.Connection) -> int | None:
    """The format of a log; 0 if the file is empty, None if it is the database of something else."""
    tables = {table for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    if not {"log", "meta"} <= tables:
        return None
    found = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchall()
    return found[0][0] if found and isinstance(found[0][0], int) else None


def format_error(known_format: int | None, identity: ServerIdentity) -> str:
    """Why a file of this format is not used."""
    if known_format is None:
        return "is the database of something else"
    return f"was written by a newer {identity.title}: its format is {known_format}, this one knows up to {FORMAT}"


def _json(revisions: Sequence[int]) -> str:
    return msgspec.json.encode(revisions).decode()


def _sizes(count: int) -> list[int]:
    """Split a batch so that there are few statements, and few different ones, which stay compiled."""
    sizes = [MOST_LINES] * (count // MOST_LINES)
    rest = count % MOST_LINES
    return sizes + [1 << bit for bit in reversed(range(rest.bit_length())) if rest & 1 << bit]


def _insert(connection: sqlite3.Connection, lines: Sequence[LogEntry]) -> None:
    rows = ",".join(["(?,?,?,?,?,?)"] * len(lines))
    fields = [field for line in lines for field in (*line, checksum_of(*line))]
    connection.execute(f"INSERT INTO log VALUES {rows}", fields)
