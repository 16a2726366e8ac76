"""The cycles of a decision log as they were recorded: events and decisions, without an engine that decides again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubebase.resource_vector import Registry
from pumice.decision_log.log_files import log_files
from pumice.decision_log.records import (
    NOTHING,
    Happened,
    Heading,
    Job,
    Memories,
    Object,
    ObjectChanged,
    ObjectGone,
    Ran,
    Resources,
    Task,
    standing_of,
)
from pumice.decision_log.replay import LogError, LogReading
from pumice.engine.checkpoint.restore import EngineSnapshot
from pumice.engine.events import Event


@dataclass(frozen=True, slots=True)
class EngineReplaced:
    """A new file: from here on an engine decided that was restored from the one before, under this configuration."""

    source: str
    config: str


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle: what happened before it, and its decisions as the log writes them."""

    now: int
    events: tuple[Event | EngineReplaced, ...]
    decisions: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """How a file begins: its heading, and the engine of that moment."""

    heading: Heading
    snapshot: EngineSnapshot


class RecordedCycles:
    """All cycles of a log, file after file. The registry knows the resources of all lines read so far."""

    def __init__(self, log: Path, since: int | None = None) -> None:
        """Begin with the first file, or with the last one that begins before ``since``; raises LogError."""
        self.files = log_files(log) if log.is_dir() else [log]
        if not self.files:
            raise LogError(f"{log}: no decision log")
        if since is not None:
            self.files = self.files[_file_before(self.files, since) :]
        self.registry = Registry()
        self._readings = [LogReading(path, lambda size: None) for path in self.files]
        self.start = self._start(self._readings[0])

    def __iter__(self) -> Iterator[RecordedCycle]:
        told: list[
            Event | EngineReplaced
        ] = []  # also from the end of a file: the next begins with the state after them
        cycles = self.start.heading.cycles
        for number, reading in enumerate(self._readings):
            if number:
                heading = self._start(reading).heading
                if heading.cycles != cycles:
                    missing = f"cycles {cycles + 1} to {heading.cycles}"
                    raise LogError(f"{reading.path}: {missing} are not in the files before it")
                told.append(EngineReplaced(heading.source, heading.config))
            for cycle in self._cycles(reading, told):
                cycles += 1
                yield cycle

    def _start(self, reading: LogReading) -> RecordedStart:
        heading = reading.heading()
        known = list(self.registry.names)
        if heading.resources[: len(known)] != known:
            raise LogError(f"{reading.path}: names its resources in another order than the file before")
        for name in heading.resources:
            self.registry.index(name)
        records = iter(reading)
        memory = next(records, None)
        there: list[Object | Job | Task] = []
        while len(there) < heading.standing and isinstance(record := next(records, None), Object | Job | Task):
            there.append(record)
        if not isinstance(memory, Memories) or len(there) < heading.standing:
            raise LogError(f"{reading.path}: the file ends before its first cycle")
        try:
            return RecordedStart(heading, EngineSnapshot(standing_of(memory, there), memory.memory))
        except msgspec.MsgspecError as error:
            raise reading.refuse(error) from None

    def _cycles(self, reading: LogReading, told: list[Event | EngineReplaced]) -> Iterator[RecordedCycle]:
        for record in reading:
            if isinstance(record, Ran):
                decided = () if record.decisions is NOTHING else tuple(msgspec.json.decode(record.decisions))
                yield RecordedCycle(record.now, tuple(told), decided)
                told.clear()
            elif isinstance(record, Resources):
                for name in record.names:
                    self.registry.index(name)
            elif isinstance(record, ObjectChanged | ObjectGone | Happened):
                told.append(reading.event(record))


def _file_before(files: list[Path], since: int) -> int:
    """The position of the last file that begins at or before a time; the first one if none does."""
    begun = [i for i, path in enumerate(files) if LogReading(path, lambda size: None).heading().began <= since]
    return begun[-1] if begun else 0
