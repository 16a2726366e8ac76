"""The decision log on disk: what the engine was told and what it decided, in files that can be replayed one by one.

A file begins where an engine begins. When it is long enough, the scheduler goes on with a new engine that was given all
that the one before knew, and a new file says what that was: so each file stands alone, and the oldest ones may go.

What happened is written out with every cycle, what the engine is told even before it decides; a crash of the process
loses nothing that was decided. A crash of the machine may lose the last moments, because nothing is synced to the disk:
the log is for looking back, and no decision depends on it. For the same reason trouble with the disk stops the log
alone. It is said once, and after a while another file is tried.

Of a cluster at rest, where cycle after cycle has no news and decides nothing, a line is written once in a while.
"""

from __future__ import annotations

import logging
import platform
import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path

from msgspec import Raw

from kubebase.resource_vector import Registry
from pumice import __version__
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

SIZE = 64 << 20
"""Bytes after which a new file begins, unless said otherwise."""
FILES = 8
"""Files that are kept, unless said otherwise."""
QUIET = 60
"""Cycles in which nothing happened that share a line, at most: as many as a crash may lose."""
AGAIN = 300.0
"""Seconds after trouble with the disk until another file is tried."""

_NAME = re.compile(r"decisions-(\d{6,})\.jsonl")


def log_files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


class DecisionLog:
    """Writes the log of one scheduler to a folder."""

    def __init__(
        self, folder: Path, *, size: int = SIZE, files: int = FILES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self._size = size
        self._files = files
        self._clock = clock
        self._file: BufferedWriter | None = None
        self._waiting: list[bytes] = []
        self._news = False  # whether the engine was told anything since the last cycle
        self._quiet: Quiet | None = None  # the cycles since something happened
        self._quiet_until = 0
        self._beginning = 0  # bytes of the present file that say how it begins
        self._targets = TargetsSeen()
        self._named = 0  # resources that the file knows
        self._again = 0.0
        self.path: Path | None = None  # of the present file
        self.written = 0  # bytes in the present file
        self.trouble = ""  # why nothing is being recorded; empty: it is

    @property
    def wants_another(self) -> bool:
        """Whether the next cycle should begin another file."""
        if self._file is None:
            return self._clock() >= self._again
        return self.written - self._beginning >= max(self._size, self._beginning)

    # ---- files ------------------------------------------------------------------------------------------------

    def begin(
        self,
        config: SchedulerConfig,
        brakes: PreemptionCooldown,
        registry: Registry,
        cycles: int,
        inherited: EngineSnapshot,
        now: int,
    ) -> None:
        """Begin another file: the engine has just been made from this."""
        self.close()
        self._targets, self._named, self.written, self._news = TargetsSeen(), len(registry), 0, False
        heading = Heading(
            format=FORMAT,
            pumice=__version__,
            source=config.source.rpartition("/")[2],
            config=config.text,
            brakes=brakes,
            resources=list(registry),
            cycles=cycles,
            began=now,
            standing=len(inherited.cluster),
            machine=f"{platform.machine()}, Python {platform.python_version()}",
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            before = log_files(self.folder)
            number = int(before[-1].stem.rpartition("-")[2]) + 1 if before else 1
            self.path = self.folder / f"decisions-{number:06d}.jsonl"
            self._file = self.path.open("xb")
            for path in before[: max(0, len(before) + 1 - self._files)]:
                path.unlink(missing_ok=True)
        except OSError as error:
            self.stop(error)
            return
        if self.trouble:
            log.warning("the decision log goes on in %s", self.path)
        self.trouble = ""
        self._put(heading)
        was = inherited.cluster
        self._put(Memories(inherited.checkpoint, was.terms, was.label_keys))
        for record in standing_records(was):
            self._put(record)
        self._write()
        self._beginning = self.written

    def close(self) -> None:
        """Nothing more comes into this file."""
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
        """The engine is about to be told this."""
        if self._file is not None:
            self._name(registry)
            self._news = True
            self._put(event_record(event))

    def decides(self, registry: Registry) -> None:
        """The engine is about to decide: what it was told is written out, whatever becomes of it."""
        if self._file is not None:
            self._name(registry)
            self._write()

    def decided(self, cycle: int, now: int, decisions: Collection[Decision], engine: Engine) -> None:
        """A cycle is over."""
        if self._file is None:
            return
        targets, news, self._news = self._targets.look(engine), self._news, False
        if news or decisions or targets is not None:
            self._put(Ran(cycle, now, Raw(decisions_text(decisions)), targets))
            self._write()
        else:
            self._pass(cycle, now)

    def _pass(self, cycle: int, now: int) -> None:
        """A cycle in which nothing happened."""
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
        """Resources may have been named for the first time: their places count."""
        if len(registry) > self._named:
            self._put(Resources(list(registry.names[self._named :])))
            self._named = len(registry)

    def _put(self, record: Record) -> None:
        self._end_quiet()
        self._waiting.append(ENCODER.encode(record))

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
        """Record nothing for a while."""
        file, self._file, self._waiting = self._file, None, []
        if not self.trouble:
            log.error("the decision log is interrupted, scheduling goes on: %s", error)
        self.trouble = str(error)
        self._again = self._clock() + AGAIN
        if file is not None:
            with suppress(OSError):
                file.raw.close()  # without what could not be written: it would fail again
