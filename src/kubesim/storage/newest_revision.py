"""The newest revision that was committed, in a small file beside the log.

SQLite ends a write-ahead log at the first frame that is damaged or missing, because that is how a commit looks that a
crash has interrupted. Acknowledged commits after a damaged frame would be gone without a word. So the revision is
written here too, after its commit. It is not synchronized: it survives the end of the process, and after a power
loss it may be older than the log, never newer. A log that ends before it has lost commits.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Self
from zlib import crc32

from kubesim.storage.errors import DataDamaged

_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{8})\n")


class NewestRevision:
    """The file, open for writing. What it says at the start is ``found``; 0 if it says nothing that can be trusted."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.found = _parse(os.pread(file, 64, 0))

    @classmethod
    def open(cls, database: Path) -> Self:
        """The file of a database, created if needed."""
        return cls(os.open(newest_path(database), os.O_RDWR | os.O_CREAT, 0o600))

    def require_at_least(self, newest: int, database: Path, repair_hint: str) -> None:
        """Raise DataDamaged if the log ends before what was committed."""
        lost = lost_commits(newest, self.found)
        if lost:
            raise DataDamaged(f"{database} {lost}: restore a backup{repair_hint}")

    def write(self, revision: int) -> None:
        """Note a commit. A failure is no harm: an older revision is right, too."""
        with suppress(OSError):
            os.pwrite(self._file, encoded(revision), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def newest_path(database: Path) -> Path:
    """Where the newest revision of a database is noted."""
    return database.with_name(f"{database.name}-newest")


def read_newest(database: Path) -> int:
    """What the file of a database says; 0 if there is none, or none that can be trusted."""
    try:
        return _parse(newest_path(database).read_bytes())
    except OSError:
        return 0


def lost_commits(newest: int, committed: int) -> str:
    """What a log misses that ends before the newest commit; empty if it does not."""
    if newest >= committed:
        return ""
    return f"ends at revision {newest}, but revision {committed} was committed: the writes after {newest} are lost"


def encoded(revision: int) -> bytes:
    """The content of the file: always of the same length, so that it is overwritten in place."""
    number = b"%020d" % revision
    return b"%b %08x\n" % (number, crc32(number))


def _parse(content: bytes) -> int:
    match = _LINE.fullmatch(content)
    return int(match[1]) if match and crc32(match[1]) == int(match[2], 16) else 0
