"""Writes the decision log: events and decisions of the engine, in files that can be replayed one by one.

A file starts with a new engine. When it is large enough, the scheduler replaces the engine by one restored from its
snapshot, and a new file starts with that snapshot: so each file is self-contained, and the oldest ones can be deleted.

Every cycle is flushed to the file, its events even before the engine decides; a crash of the process loses no decision.
A crash of the machine may lose the last moments, because nothing is synced to the disk: the log serves later analysis,
and no decision depends on it. For the same reason an I/O error stops only the log. It is reported once, and another
file is tried after ``AGAIN``.

For an idle cluster, where cycles have no events and no decisions, a line is written only once per ``QUIET`` cycles.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path

from msgspec import Raw

from kubebase.resource_vector import Registry
from pumice import __version__
from pumice.decision_log.line_chain import chain_of, last_chain, sealed
from pumice.decision_log.log_files import log_files
from pumice.decision_log.records import (
    ENCODER,
    FORMAT,
    Heading,
    Memories,
    Quiet,
    Ran,
    Record,
    Resources,
    TargetsSeen,
    decisions_text,
    event_record,
    standing_records,
)
from pumice.engine.checkpoint.restore import EngineSnapshot
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Event
from pumice.engine.preemption.cooldown import PreemptionCooldown

log = logging.getLogger(__name__)

SIZE = 1 << 20
"""Bytes after which a new file starts, by default. Each begins with a snapshot: to show a moment, one is replayed."""
FILES = 512
"""Number of files kept, by default."""
QUIET = 60
"""The most idle cycles that share a line, and that a crash may lose."""
AGAIN = 300.0
"""Seconds after an I/O error until another file is tried."""


class DecisionLog:
    """Writes the decision log of one scheduler to a folder."""

    def __init__(
        self, folder: Path, *, size: int = SIZE, files: int = FILES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self._size = size
        self._files = files
        self._clock = clock
        self._file: BufferedWriter | None = None
        self._waiting: list[bytes] = []
        self._news = False  # whether the engine received events since the last cycle
        self._quiet: Quiet | None = None  # the idle cycles since the last line
        self._quiet_until = 0
        self._beginning = 0  # bytes of the heading and the snapshot in the present file
        self._targets = TargetsSeen()
        self._named = 0  # number of resources that the file has named
        self._again = 0.0
        self._chain = ""  # of the last line
        self.path: Path | None = None  # of the present file
        self.written = 0  # bytes in the present file
        self.trouble = ""  # why recording is suspended; empty: it is not

    @property
    def wants_another(self) -> bool:
        """Whether the next cycle should start a new file."""
        if self._file is None:
            return self._clock() >= self._again
        return self.written - self._beginning >= max(self._size, self._beginning)

    # ---- files ------------------------------------------------------------------------------------------------

    def begin(
        self,
        config: SchedulerConfig,
        cooldown: PreemptionCooldown,
        registry: Registry,
        cycles: int,
        snapshot: EngineSnapshot,
        now: int,
    ) -> None:
        """Start a new file, with the snapshot from which the engine was just restored."""
        self.close()
        self._targets, self._named, self.written, self._news = TargetsSeen(), len(registry), 0, False
        heading = Heading(
            format=FORMAT,
            pumice=__version__,
            source=config.source.rpartition("/")[2],
            config=config.text,
            cooldown=cooldown,
            resources=list(registry),
            cycles=cycles,
            began=now,
            standing=len(snapshot.cluster),
            machine=f"{platform.machine()}, Python {platform.python_version()}",
            awaits=True,
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            before = log_files(self.folder)
            number = int(before[-1].stem.rpartition("-")[2]) + 1 if before else 1
            # Read from the files, because lines may have been lost to a crash or a full disk.
            heading.follows = self._chain = next(filter(None, map(last_chain, reversed(before))), "")
            self.path = self.folder / f"decisions-{number:06d}.jsonl"
            self._file = self.path.open("xb")
            for path in before[: max(0, len(before) + 1 - self._files)]:
                path.unlink(missing_ok=True)
        except OSError as error:
            self.stop(error)
            return
        if self.trouble:
            log.warning("Continuing the decision log in a new file: path=%s", self.path)
        self.trouble = ""
        self._put(heading)
        was = snapshot.cluster
        self._put(Memories(snapshot.checkpoint, was.terms, was.label_keys))
        for record in standing_records(was):
            self._put(record)
        self._write()
        self._beginning = self.written

    def close(self) -> None:
        """Complete and close the present file."""
        self._end_quiet()
        self._write()
        file, self._file, self._waiting = self._file, None, []
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self.stop(error)

    # ---- lines ------------------------------------------------------------------------------------------------

    def told(self, event: Event, registry: Registry) -> None:
        """Record an event that the engine is about to receive."""
        if self._file is not None:
            self._name(registry)
            self._news = True
            self._put(event_record(event))

    def decides(self, registry: Registry) -> None:
        """Flush the events before the engine decides, so that a crash cannot lose them."""
        if self._file is not None:
            self._name(registry)
            self._write()

    def decided(self, cycle: int, now: int, decisions: Collection[Decision], engine: Engine) -> None:
        """Record a completed cycle."""
        if self._file is None:
            return
        targets, news, self._news = self._targets.look(engine), self._news, False
        if news or decisions or targets is not None:
            self._put(Ran(cycle, now, Raw(decisions_text(decisions)), targets))
            self._write()
        else:
            self._pass(cycle, now)

    def _pass(self, cycle: int, now: int) -> None:
        """Record an idle cycle."""
        if self._quiet is None:
            self._quiet = Quiet(cycle, now)
        else:
            self._quiet.gaps.append(now - self._quiet_until)
        self._quiet_until = now
        if len(self._quiet.gaps) + 1 >= QUIET:
            self._end_quiet()
            self._write()

    def _end_quiet(self) -> None:
        quiet, self._quiet = self._quiet, None
        if quiet is not None:
            self._put(quiet)

    def _name(self, registry: Registry) -> None:
        """Record resources named for the first time, since vectors refer to them by position."""
        if len(registry) > self._named:
            self._put(Resources(list(registry.names[self._named :])))
            self._named = len(registry)

    def _put(self, record: Record) -> None:
        self._end_quiet()
        body = ENCODER.encode(record)
        self._chain = chain_of(body, self._chain)
        self._waiting.append(sealed(body, self._chain))

    def _write(self) -> None:
        if self._file is None or not self._waiting:
            return
        text = b"\n".join((*self._waiting, b""))
        self._waiting.clear()
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self.stop(error)
        else:
            self.written += len(text)

    def stop(self, error: Exception) -> None:
        """Suspend recording for ``AGAIN``."""
        file, self._file, self._waiting = self._file, None, []
        if not self.trouble:
            log.error('Failed to write the decision log, scheduling continues without it: error="%s"', error)
        self.trouble = str(error)
        self._again = self._clock() + AGAIN
        if file is not None:
            with suppress(OSError):
                file.raw.close()  # without flushing the buffer, which would fail again
