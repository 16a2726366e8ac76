"""Finds a moment in a decision log: the file that contains it, and the engine as it was then.

Every file begins with a snapshot, so only the cycles of one file up to the moment are decided again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pumice.decision_log.log_files import begun_files
from pumice.decision_log.replay import LogError, Outcome, Replayed, began, first_time, replay
from pumice.engine.engine import Engine


class TooEarlyError(LogError):
    """A log begins later than the time asked for. ``first`` is the time of its first cycle, if it has one."""

    def __init__(self, message: str, first: int | None) -> None:
        super().__init__(message)
        self.first = first


@dataclass(slots=True)
class PastMoment:
    """A cluster after the last cycle at or before a time, in microseconds."""

    asked: int
    engine: Engine
    outcome: Outcome
    is_last: bool  # no cycle is recorded after it
    recent: deque[Replayed] = field(default_factory=deque)  # the latest cycles, as far back as was asked for

    @property
    def cycle(self) -> int:
        """The number of the last cycle; that before the file if the file has none so early."""
        return self.recent[-1].number if self.recent else self.outcome.heading.cycles

    @property
    def now(self) -> int:
        """When the last cycle ran."""
        return self.recent[-1].now if self.recent else self.outcome.heading.began


def file_at(log: Path, at: int) -> Path:
    """The file of a log that contains a time: the last one with a cycle at or before it. Raises ``LogError``."""
    files = begun_files(log)
    if not files:
        raise LogError(f"{log}: no decision log in this directory; its files are decisions-*.jsonl")
    for path in reversed(files):
        if began(path) > at:
            continue  # which the first line tells, without reading the snapshot
        first = first_time(path)
        if first is not None and first <= at:
            return path
    first = next((time for path in files if (time := first_time(path)) is not None), None)
    raise TooEarlyError(f"{log}: no cycle is recorded before the time asked for", first)


def past_moment(
    log: Path, at: int, *, recent: int = 0, progress: Callable[[int], None] = lambda size: None
) -> PastMoment:
    """The cluster at a time; ``recent``: keep the cycles of so many microseconds before. Raises ``LogError``."""
    path = file_at(log, at)
    kept: deque[Replayed] = deque()

    def watch(cycle: Replayed) -> None:
        kept.append(cycle)
        while len(kept) > 1 and kept[0].now < at - recent:
            kept.popleft()

    outcome = replay(path, at=at, compare_targets=False, watch=watch, progress=progress)
    if outcome.engine is None:
        raise LogError(f"{path}: the file ends before its first cycle")
    later = (file for file in begun_files(log) if file.name > path.name)
    is_last = outcome.ended and all(first_time(file) is None for file in later)
    return PastMoment(at, outcome.engine, outcome, is_last, kept)
