"""When the decision log has decisions: its span, and the times of the cycles that decided something.

Lines are searched, not decoded: a log may have half a gigabyte. A file that is complete is read once.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from pumice.decision_log.log_files import log_files
from pumice.ui.values import Document, time_text

MOST_MARKS = 300

_CYCLE = b'{"is":"cycle"'
_QUIET = b'{"is":"quiet"'
_NOW = re.compile(rb'"now":(\d+)')
_BIND, _EVICT = b'"does":"bind"', b'"does":"evict"'


@dataclass(slots=True)
class _FileIndex:
    """The times of a file, in microseconds: of its first and last cycle, and of cycles with binds or evictions."""

    read: int = 0  # bytes
    first: int = 0
    last: int = 0
    decided: array[int] = field(default_factory=lambda: array("q"))
    evicted: array[int] = field(default_factory=lambda: array("q"))  # once for each eviction


class LogIndex:
    """The times of a folder of log files; ``refresh`` may be called from any one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _FileIndex] = {}

    def refresh(self) -> None:
        """Read what has been written since the last time."""
        if not self._folder.is_dir():
            self._files = {}
            return
        paths = log_files(self._folder)
        self._files = {path.name: self._files.get(path.name) or _FileIndex() for path in paths}
        for path in paths:
            _read_on(path, self._files[path.name])

    @property
    def span(self) -> tuple[int, int] | None:
        """The times of the first and the last cycle; None without any."""
        files = [each for each in self._files.values() if each.first]
        return (files[0].first, files[-1].last) if files else None

    def file_at(self, time: int) -> Path:
        """The file that contains a time within the span."""
        begun = [name for name, each in self._files.items() if each.first and each.first <= time]
        return self._folder / begun[-1]

    def neighbours(self, time: int) -> tuple[int, int]:
        """The times of the last cycle before, and the first one after, that decided something; 0: none."""
        decided = [moment for each in self._files.values() for moment in each.decided]
        before, after = bisect_left(decided, time), bisect_right(decided, time)
        return (decided[before - 1] if before else 0, decided[after] if after < len(decided) else 0)

    def document(self) -> Document:
        """The span, and when tasks were evicted."""
        span = self.span
        if span is None:
            return {"from": None, "until": None, "marks": []}
        since, until = span
        step = max(1, (until - since) // MOST_MARKS + 1)
        counts: dict[int, int] = {}
        for each in self._files.values():
            for moment in each.evicted:
                mark = (moment - since) // step
                counts[mark] = counts.get(mark, 0) + 1
        return {
            "from": time_text(since),
            "until": time_text(until),
            "marks": [
                {"time": time_text(since + mark * step), "kind": "evict", "count": count}
                for mark, count in sorted(counts.items())
            ],
        }


def _read_on(path: Path, index: _FileIndex) -> None:
    with path.open("rb") as file:
        file.seek(index.read)
        for line in file:
            if not line.endswith(b"\n"):
                return
            index.read += len(line)
            if line.startswith((_CYCLE, _QUIET)):
                _note(line, index)


def _note(line: bytes, index: _FileIndex) -> None:
    found = _NOW.search(line)
    if found is None:
        return
    now = int(found[1])
    index.first = index.first or now
    index.last = now
    evictions = line.count(_EVICT)
    if evictions or _BIND in line:
        index.decided.append(now)
    index.evicted.extend([now] * evictions)
