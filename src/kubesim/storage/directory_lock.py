"""The lock of a data directory: one process at a time.

The kernel holds the lock (flock), so it is released when its process ends, however it ends. The content of the lock
file describes the holder to users and has no other purpose.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from kubesim.clock import stamp
from kubesim.storage.errors import DataDamaged, DataInUse

LOCK = "lock"
"""The lock file in a data directory. It is never removed: otherwise two processes could lock two files of one name."""


class LockHolder(msgspec.Struct, frozen=True):
    """The description of a holder in the lock file."""

    program: str
    pid: int
    since: str
    address: str = ""

    def __str__(self) -> str:
        where = f", at {self.address}" if self.address else ""
        return f"{self.program}, process {self.pid}, since {self.since}{where}"


class DirectoryLock:
    """The lock of a data directory, until released."""

    def __init__(self, lock: int, holding: LockHolder) -> None:
        self._lock = lock
        self._write(holding)

    @classmethod
    def acquire(cls, directory: Path, program: str, address: str = "") -> Self:
        """Create the directory if needed, and lock it. Raises DataInUse, which names the holder."""
        try:
            _make(directory)
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataDamaged(
                f"{directory} cannot be used as a data directory: {error.strerror}: {error.filename}"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holding = _read(lock)
            os.close(lock)
            raise DataInUse(f"{directory} is held by {holding or 'another process'}") from None
        since = stamp(time.time())
        return cls(lock, LockHolder(program, os.getpid(), since, address))

    def announce(self, address: str) -> None:
        """Add the address of this process, once it is known."""
        self._write(msgspec.structs.replace(self._holding, address=address))

    def release(self) -> None:
        """Release the lock."""
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
        os.close(self._lock)

    def _write(self, holding: LockHolder) -> None:
        self._holding = holding
        with suppress(OSError):  # a full disk: the lock is held without a description
            text = msgspec.json.encode(holding) + b"\n"
            os.pwrite(self._lock, text, 0)
            os.ftruncate(self._lock, len(text))


def holder_of(directory: Path) -> str:
    """The holder of a data directory; empty if it is not in use."""
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY)
    except OSError:
        return ""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return str(_read(lock) or "another process")
    finally:
        os.close(lock)
    return ""


def require_unused(directory: Path) -> None:
    """Raise DataInUse if a data directory is in use, without modifying it."""
    holder = holder_of(directory)
    if holder:
        raise DataInUse(f"{directory} is held by {holder}")


def _read(lock: int) -> LockHolder | None:
    try:
        return msgspec.json.decode(os.pread(lock, 4096, 0), type=LockHolder)
    except (OSError, msgspec.DecodeError):  # it has only just begun, or could not write
        return None


def _make(directory: Path) -> None:
    """Make a directory, and those above it, in a way that outlasts a power loss."""
    if directory.is_dir():
        return
    if not directory.parent.is_dir():
        _make(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    parent = os.open(directory.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
