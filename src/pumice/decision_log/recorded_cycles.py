"""The cycles of a decision log as they were recorded: events and decisions, without an engine that decides again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from kubebase.resource_vector import Registry
from pumice.decision_log.known_objects import KnownObjects, described_objects
from pumice.decision_log.log_files import begun_files
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
from pumice.engine.events import Changed, Event


@dataclass(frozen=True, slots=True)
class EngineReplaced:
    """A new file: from here on an engine decided that was restored from the one before, under this configuration."""

    source: str
    config: str


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """How a file begins: its heading, and the engine of that moment."""

    heading: Heading
    snapshot: EngineSnapshot


@dataclass(frozen=True, slots=True)
class EngineRestarted:
    """Another scheduler was started: it remembers nothing, and learned the cluster by these events."""

    start: RecordedStart
    events: tuple[Event, ...]


Told = Event | EngineReplaced | EngineRestarted


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle: what happened before it, and its decisions as the log writes them."""

    now: int
    events: tuple[Told, ...]
    decisions: tuple[dict[str, Any], ...]


class RecordedCycles:
    """All cycles of a log, file after file. The registry knows the resources of all lines read so far."""

    def __init__(self, log: Path, since: int | None = None) -> None:
        """Begin with the first file, or with the last one that begins before ``since``; raises LogError."""
        self.files = begun_files(log)
        if log.is_dir():  # a scheduler that was killed while it wrote the beginning has decided nothing
            self.files = [path for path in self.files if _has_beginning(path)]
        if not self.files:
            raise LogError(f"{log}: no decision log")
        if since is not None:
            self.files = self.files[_file_before(self.files, since) :]
        self.registry = Registry()
        self._names: list[str] = []  # of the resources that the present scheduler has named
        self._known = KnownObjects()
        self._readings = [LogReading(path, lambda size: None) for path in self.files]
        self.start = self._start(self._readings[0])
        self._known.begin(self.start.snapshot.cluster)

    def __iter__(self) -> Iterator[RecordedCycle]:
        told: list[Told] = []  # also from the end of a file: the next begins with the state after them
        cycles = self.start.heading.cycles
        for number, reading in enumerate(self._readings):
            anew: RecordedStart | None = None
            if number:
                start = self._start(reading)
                heading = start.heading
                if not heading.cycles:
                    anew, cycles = start, 0
                elif heading.cycles != cycles:
                    missing = (
                        f"cycles {cycles + 1} to {heading.cycles}" if heading.cycles > cycles else "cycles before it"
                    )
                    raise LogError(f"{reading.path}: {missing} are not in the files before it")
                else:
                    told.append(EngineReplaced(heading.source, heading.config))
            for cycle in self._cycles(reading, told, anew):
                cycles += 1
                yield cycle

    def _start(self, reading: LogReading) -> RecordedStart:
        heading = reading.heading()
        self._names = []
        self._name(reading, heading.resources)
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

    def _name(self, reading: LogReading, names: Sequence[str]) -> None:
        """Resources are named, which have to have the same places in all files."""
        for name in names:
            self._names.append(name)
            if self.registry.index(name) != len(self._names) - 1:
                raise LogError(
                    f"{reading.path}: resources have another order than in the files before it, as of a scheduler that "
                    "was started anew; copy this file and those after it to another folder, and use that"
                )

    def _cycles(self, reading: LogReading, told: list[Told], anew: RecordedStart | None) -> Iterator[RecordedCycle]:
        """The cycles of a file; ``anew``: it begins with a scheduler that learns the cluster before its first cycle."""
        known, listed = self._known, list[Event]()
        for record in reading:
            if isinstance(record, Ran):
                if anew is not None:
                    there: list[Event] = [Changed(one) for one in described_objects(anew.snapshot.cluster)]
                    told += [EngineRestarted(anew, tuple(listed)), *known.seen_anew([*there, *listed])]
                    anew = None
                decided = () if record.decisions is NOTHING else tuple(msgspec.json.decode(record.decisions))
                known.decided(decided)
                yield RecordedCycle(record.now, tuple(told), decided)
                told.clear()
            elif isinstance(record, Resources):
                self._name(reading, record.names)
            elif isinstance(record, ObjectChanged | ObjectGone | Happened):
                event = reading.event(record)
                if anew is not None:
                    listed.append(event)
                else:
                    known.told(event)
                    told.append(event)


def _has_beginning(path: Path) -> bool:
    """Whether a file has all lines of the snapshot that it begins with."""
    standing = LogReading(path, lambda size: None).heading().standing
    with path.open("rb") as file:
        lines = sum(line.endswith(b"\n") for line in islice(file, 2 + standing))
    return lines == 2 + standing


def _file_before(files: list[Path], since: int) -> int:
    """The position of the last file that begins at or before a time; the first one if none does."""
    begun = [i for i, path in enumerate(files) if LogReading(path, lambda size: None).heading().began <= since]
    return begun[-1] if begun else 0
