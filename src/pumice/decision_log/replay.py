"""Replays a decision log: the same engine with the same events must make the same decisions, to the byte.

Replay needs nothing but the file and the plugins that its configuration names. A last line that was being written when
the process died is ignored, and so are the events of a cycle that never ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kubebase.resource_vector import Registry
from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.records import (
    READABLE,
    Happened,
    Heading,
    Job,
    Line,
    Memories,
    Object,
    ObjectChanged,
    ObjectGone,
    Quiet,
    Ran,
    Resources,
    Targets,
    TargetsSeen,
    Task,
    decisions_text,
    event_of,
    read_line,
    standing_of,
)
from pumice.engine.checkpoint.restore import EngineSnapshot, restore_engine
from pumice.engine.config.scheduler_config import ConfigError
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Event


class LogError(Exception):
    """A file that cannot be replayed, and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a replay. If ``expected`` or ``found`` is None, that side has no further entry."""

    cycle: int
    line: int
    what: str  # decision or target
    where: str  # which decision, or which queue
    expected: Any
    found: Any


@dataclass(frozen=True, slots=True)
class Replayed:
    """A cycle as replayed."""

    number: int
    now: int
    events: tuple[Event, ...]
    targets: Targets | None
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class Outcome:
    """The result of replaying a file."""

    path: Path
    heading: Heading
    cycles: int = 0  # that agree
    events: int = 0
    decisions: int = 0  # that agree
    torn: bool = False  # whether the writer died in the middle of a line
    ended: bool = False  # whether the file was replayed to its end
    difference: Difference | None = None
    notes: list[str] = field(default_factory=list)
    engine: Engine | None = None
    """The engine after the last replayed cycle; None if the file ends within its snapshot."""


def replay(
    path: Path,
    *,
    until: int | None = None,
    at: int | None = None,
    compare_targets: bool = True,
    watch: Callable[[Replayed], None] = lambda cycle: None,
    progress: Callable[[int], None] = lambda size: None,
) -> Outcome:
    """Replay a file until the first difference; raises LogError. ``progress`` is called with the bytes of each line.

    ``until`` is the last cycle to replay, and ``at`` a time in microseconds after which none is. Without
    ``compare_targets`` only the decisions are compared: whoever wants the engine at a time need not look at the target
    of every job after every cycle, which takes longer than the cycles themselves.
    """
    reading = LogReading(path, progress)
    heading = reading.heading()
    outcome = Outcome(path, heading)
    registry = Registry()
    for name in heading.resources:
        registry.index(name)
    engine = reading.engine(heading, registry)
    if engine is None:
        outcome.torn = True
        return outcome
    outcome.engine = engine
    targets = TargetsSeen()
    told: list[Event] = []
    for record in reading:
        if isinstance(record, Ran):
            if at is not None and record.now > at:
                return outcome
            for event in told:
                engine.apply(event)
            decisions = engine.cycle(record.now)
            set_now = targets.look(engine) if compare_targets else record.targets
            outcome.difference = _difference(record, reading.line, set_now, decisions)
            watch(Replayed(record.cycle, record.now, tuple(told), set_now, tuple(decisions)))
            if outcome.difference is not None:
                return outcome
            outcome.cycles += 1
            outcome.events += len(told)
            outcome.decisions += len(decisions)
            told.clear()
            if until is not None and record.cycle >= until:
                return outcome
        elif isinstance(record, Resources):
            for name in record.names:
                registry.index(name)
        elif isinstance(record, ObjectChanged | ObjectGone | Happened):
            told.append(reading.event(record))  # applied with its cycle, which may not be wanted or recorded any more
        else:
            raise reading.refuse("unexpected header record after the beginning of the file")
    outcome.torn = reading.torn
    outcome.ended = True
    return outcome


def first_cycle(path: Path) -> int:
    """The number of the first cycle that a file may contain; raises LogError."""
    return LogReading(path, lambda size: None).heading().cycles + 1


def began(path: Path) -> int:
    """When a file was begun, in microseconds; raises LogError."""
    return LogReading(path, lambda size: None).heading().began


def first_time(path: Path) -> int | None:
    """When the first cycle of a file ran, in microseconds; None if it has none. Raises LogError."""
    return next((record.now for record in LogReading(path, lambda size: None) if isinstance(record, Ran)), None)


class LogReading:
    """The lines of a file in order, without an incomplete line at its end."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        self.path = path
        self.line = 0
        self.torn = False
        self._records = self._read(progress)

    def __iter__(self) -> Iterator[Line]:
        return self._records

    def refuse(self, problem: object) -> LogError:
        """An error about the current line."""
        return LogError(f"{self.path}:{self.line}: {problem}")

    def _read(self, progress: Callable[[int], None]) -> Iterator[Line]:
        try:
            with self.path.open("rb") as file:
                for self.line, text in enumerate(file, 1):
                    if not text.endswith(b"\n"):
                        self.torn = True
                        return
                    try:
                        record = read_line(text)
                    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                        raise self.refuse(f"not a record of a decision log: {error}") from None
                    if isinstance(record, Quiet):
                        yield from record.cycles()
                    else:
                        yield record
                    progress(len(text))
        except OSError as error:
            raise LogError(f"{self.path}: {error.strerror}") from None

    def heading(self) -> Heading:
        """The first line."""
        first = next(self._records, None)
        if not isinstance(first, Heading):
            raise LogError(f"{self.path}: not a decision log, or truncated before its first record")
        if first.format not in READABLE:
            raise LogError(
                f"{self.path}: written by Pumice {first.pumice} in format {first.format}; this version "
                f"reads formats {' and '.join(map(str, READABLE))}"
            )
        return first

    def engine(self, heading: Heading, registry: Registry) -> Engine | None:
        """The engine at the start of the file; None if the file ends within its snapshot."""
        try:
            config = read_config(heading.config, heading.source)
        except ConfigError as error:
            raise LogError(f"{self.path}: cannot use the recorded configuration: {error}") from None
        memory = next(self._records, None)
        there: list[Object | Job | Task] = []
        while len(there) < heading.standing and isinstance(record := next(self._records, None), Object | Job | Task):
            there.append(record)
        if not isinstance(memory, Memories) or len(there) < heading.standing:
            return None
        try:
            was = standing_of(memory, there)
        except msgspec.MsgspecError as error:
            raise self.refuse(error) from None
        return restore_engine(
            EngineSnapshot(was, memory.memory), config, plugin_factories(config), registry, heading.cooldown
        )

    def event(self, record: ObjectChanged | ObjectGone | Happened) -> Event:
        """The event of a line."""
        try:
            return event_of(record)
        except msgspec.MsgspecError as error:
            raise self.refuse(error) from None


def _difference(record: Ran, line: int, targets: Targets | None, decisions: list[Decision]) -> Difference | None:
    """The difference between a cycle and the recorded one; targets first, because decisions follow from them."""
    cycle = record.cycle
    if targets != record.targets:
        for where, expected, found in _parts(record.targets, targets):
            if expected != found:
                return Difference(cycle, line, "target", where, expected, found)
    text = decisions_text(decisions)
    if text == bytes(record.decisions):
        return None
    was, now = msgspec.json.decode(record.decisions), msgspec.json.decode(text)
    number = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    expected, found = (said[number] if number < len(said) else None for said in (was, now))
    return Difference(cycle, line, "decision", str(number + 1), expected, found)


def _parts(was: Targets | None, now: Targets | None) -> Iterator[tuple[str, Any, Any]]:
    """The parts of the targets to compare: queue by queue, then the digest over the jobs."""
    before, after = (each.entitled if each is not None else {} for each in (was, now))
    for queue in {**before, **after}:
        yield queue, before.get(queue), after.get(queue)
    yield "jobs", was.jobs if was is not None else None, now.jobs if now is not None else None
