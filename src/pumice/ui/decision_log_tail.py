"""Follows the decision log of a scheduler: binds and evictions as they are written.

Only cycles that decided something are decoded, and of jobs their queue and user. At the start the end of the log is
read, so that the page begins with the latest decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from pumice.decision_log.log_files import log_files
from pumice.kube.watch.informer import Informer
from pumice.ui.decisions import DecisionFeed, DecisionSeen, SidesSeen

log = logging.getLogger(__name__)

FIRST_BYTES = 4 << 20
"""Bytes at the end of the log that are read at the start."""
CHUNK = 1 << 20

_CYCLE, _CHANGED_JOB, _JOB = b'{"is":"cycle"', b'{"is":"changed","kind":"job"', b'{"is":"job"'


class _Decision(Struct):
    does: str
    task: str = ""
    node: str = ""
    job: str = ""
    preemptor: str = ""
    action: str = ""
    sides: SidesSeen | None = None


class _Cycle(Struct):
    cycle: int
    now: int
    decisions: list[_Decision]


class _JobSpec(Struct):
    namespace: str
    name: str
    queue: str = ""
    user: str = ""


class _JobLine(Struct):
    object: _JobSpec | None = None


_cycles = msgspec.json.Decoder(_Cycle)
_jobs = msgspec.json.Decoder(_JobLine)


class DecisionLogTail:
    """Reads a folder of log files into a feed."""

    def __init__(self, folder: Path, feed: DecisionFeed) -> None:
        self._folder = folder
        self._feed = feed
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._rest = b""
        self.informers: Sequence[Informer[Any]] = ()

    def close(self) -> None:
        """Stop following."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def poll(self) -> None:
        """Read what has been written since the last time."""
        try:
            self._read_on()
            first = self._path is None
            for path in self._newer_files():
                self._open(path, from_end=first)
                self._read_on()
        except OSError as error:
            log.warning('Failed to read the decision log: folder=%s error="%s"', self._folder, error)

    def _newer_files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        files = log_files(self._folder)
        if self._path is not None:
            return files[files.index(self._path) + 1 :] if self._path in files else files[-1:]
        size, first = 0, len(files)
        while first and size < FIRST_BYTES:  # each start of the scheduler begins a new file, which may be short
            first -= 1
            size += files[first].stat().st_size
        return files[first:]

    def _open(self, path: Path, *, from_end: bool) -> None:
        if self._file is not None:
            self._file.close()
        self._path, self._rest = path, b""
        self._file = path.open("rb")
        size = path.stat().st_size
        if from_end and size > FIRST_BYTES:
            self._file.seek(size - FIRST_BYTES)
            self._file.readline()  # an incomplete one

    def _read_on(self) -> None:
        while self._file is not None and (chunk := self._file.read(CHUNK)):
            lines = (self._rest + chunk).split(b"\n")
            self._rest = lines.pop()
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            if line.startswith(_CYCLE):
                self._feed.add(_decided(_cycles.decode(line)))
            elif line.startswith((_CHANGED_JOB, _JOB)) and (spec := _jobs.decode(line).object) is not None:
                self._feed.note_job(f"{spec.namespace}/{spec.name}", spec.queue, spec.user)
        except msgspec.MsgspecError as error:
            log.warning('Skipped a line of the decision log: path=%s error="%s"', self._path, error)


def _decided(cycle: _Cycle) -> Iterator[DecisionSeen]:
    for one in cycle.decisions:
        if one.does == "bind":
            yield DecisionSeen(cycle.now, cycle.cycle, "bind", one.task, one.node, one.job)
        elif one.does == "evict":
            yield DecisionSeen(
                cycle.now,
                cycle.cycle,
                "evict",
                one.task,
                one.node,
                one.job,
                action=one.action,
                preemptor=one.preemptor,
                sides=one.sides,
            )
