"""Reads the logs of containers: lines with their times, from rotated files, a part of them, and as they are written."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kubebase.timestamps import moment_of
from pumice.agent.shim.records import LOGS

POLL_SECONDS = 0.1
CHUNK = 1 << 16
BLOCK_LINES = 512
MICROSECONDS = 1_000_000


class NoLogError(Exception):
    """There is no such log."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log is wanted."""

    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None
    """Only lines from this moment on, in seconds since 1970."""
    limit: int | None = None
    """Bytes."""
    follow: bool = False


def log_path(folder: Path, container: str, *, previous: bool) -> Path:
    """The newest log file of a container, or that of the run before."""
    runs = folder / LOGS / container
    numbers = sorted(int(path.stem) for path in runs.glob("*.log"))
    if not numbers or (previous and len(numbers) < 2):
        raise NoLogError(f'{"previous terminated " if previous else ""}container "{container}" not found')
    return runs / f"{numbers[-2 if previous else -1]}.log"


async def read_log(path: Path, query: LogQuery, *, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The lines that are wanted. A follower gets what is written from then on, until the run has ended."""
    left = query.limit
    with closing(_LogFiles(path)) as files:
        lines = files.existing_lines(query.tail)
        while True:
            over = not query.follow or is_over()  # before the look, so that nothing is missed
            for block in _wanted_blocks(lines, query):
                yield block if left is None else block[:left]
                left = None if left is None else left - len(block)
                if left is not None and left <= 0:
                    return
            if over:
                return
            await asyncio.sleep(POLL_SECONDS)
            lines = files.new_lines()


def _wanted_blocks(lines: Iterator[bytes], query: LogQuery) -> Iterator[bytes]:
    parts: list[bytes] = []
    for line in lines:
        text = _shown(line, query)
        if text:
            parts.append(text)
            if len(parts) >= BLOCK_LINES:
                yield b"".join(parts)
                parts.clear()
    if parts:
        yield b"".join(parts)


def _shown(line: bytes, query: LogQuery) -> bytes:
    """A line as it is sent: ``TIME STREAM F TEXT`` becomes the text, whole lines with their end."""
    time, _, rest = line.partition(b" ")
    _, _, tagged = rest.partition(b" ")
    tag, _, text = tagged.partition(b" ")
    if query.since is not None and _moment(time) < query.since:
        return b""
    whole = text + (b"\n" if tag == b"F" else b"")
    return time + b" " + whole if query.timestamps else whole


def _moment(time: bytes) -> float:
    """In seconds since 1970; of what is no time, because a full disk has cut the line before it, the end of time."""
    try:
        return moment_of(f"{time.decode()[:26]}Z") / MICROSECONDS  # of nanoseconds, what Python reads
    except ValueError:
        return math.inf


class _LogFiles:
    """A log and its rotated files, read from the oldest line on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._rest = b""

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def existing_lines(self, tail: int | None) -> Iterator[bytes]:
        """The lines that are there now, or the last of them."""
        if tail is None:
            for file in self._newest_first():
                self.close()
                self._file = file
            yield from self.new_lines()
            return
        older = sorted(self._path.parent.glob(f"{self._path.name}.*"), key=_age, reverse=True)
        lines = list(self.new_lines())
        for place in reversed(older):
            if len(lines) >= tail:
                break
            with suppress(FileNotFoundError):
                lines = [*_whole_lines(place.read_bytes()), *lines]
        yield from lines[len(lines) - tail :] if 0 < tail < len(lines) else lines if tail else ()

    def new_lines(self) -> Iterator[bytes]:
        """The lines that were written since, also into a file that has taken the place of this one."""
        yield from self._rest_of_file()
        while (following := self._following_file()) is not None:
            yield from self._rest_of_file()  # what was written before the other one was begun
            self.close()
            self._file = following
            yield from self._rest_of_file()

    def _rest_of_file(self) -> Iterator[bytes]:
        while content := self._file.read(CHUNK):
            lines = (self._rest + content).split(b"\n")
            self._rest = lines.pop()
            yield from lines

    def _following_file(self) -> BinaryIO | None:
        """The file that was begun after this one; None: this is the newest. Of those between, the oldest that is left.

        Opened from the newest on, because a rotation meanwhile gives a file the name of an older one: so one may be
        found twice, and none is missed.
        """
        mine, found = _inode(self._file), None
        for file in self._newest_first():
            if _inode(file) == mine:
                file.close()
                break
            if found is not None:
                found.close()
            found = file
        return found

    def _newest_first(self) -> Iterator[BinaryIO]:
        """The files that are there, each once. In the middle of a rotation one name is missing."""
        seen, missing = set[int](), 0
        for number in itertools.count():
            try:
                file = _opened(Path(f"{self._path}.{number}") if number else self._path)
            except FileNotFoundError:
                missing += 1
                if missing == 2:
                    return
                continue
            if _inode(file) in seen:
                file.close()
                continue
            seen.add(_inode(file))
            yield file


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _whole_lines(content: bytes) -> list[bytes]:
    """The lines of a rotated file; what a program writes may contain other ends of lines (progress bars)."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _age(path: Path) -> int:
    return int(path.name.rpartition(".")[2])
