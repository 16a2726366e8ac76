"""The log of one run of a container: lines with their time and stream, in files that are rotated.

The format is that of container runtimes: ``TIME STREAM F LINE``; P instead of F marks a part of a line that goes on.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

LONGEST_PART = 16 * 1024
NANOSECONDS = 10**9


class LogWriter:
    """Writes one log."""

    def __init__(self, path: str, most_bytes: int, most_files: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._size = 0
        self._begun: dict[str, bytes] = {}  # by stream: a line that has no end yet
        self._moment = 0  # of the last line, in nanoseconds since 1970
        self._second = (0, "")  # as text, which most lines share
        self._file = self._opened()

    def write(self, stream: str, content: bytes) -> None:
        """Take what a process has written."""
        lines = (self._begun.pop(stream, b"") + content).split(b"\n")
        rest = lines.pop()
        parts = []
        for line in lines:
            last = max(0, len(line) - 1) // LONGEST_PART * LONGEST_PART
            parts += [self._part(stream, b"P", line[at : at + LONGEST_PART]) for at in range(0, last, LONGEST_PART)]
            parts.append(self._part(stream, b"F", line[last:]))
        while len(rest) >= LONGEST_PART:
            parts.append(self._part(stream, b"P", rest[:LONGEST_PART]))
            rest = rest[LONGEST_PART:]
        if rest:
            self._begun[stream] = rest
        self._append_parts(parts)

    def close(self) -> None:
        """Write lines that never ended, and close the file."""
        for stream, rest in self._begun.items():
            self._append(self._part(stream, b"P", rest))
        self._begun.clear()
        os.close(self._file)

    def _part(self, stream: str, tag: bytes, text: bytes) -> bytes:
        """A line of the file. No two have the same time, so that a follower can tell what it has seen."""
        self._moment = moment = max(time.time_ns(), self._moment + 1)
        seconds = moment // NANOSECONDS
        if seconds != self._second[0]:
            self._second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)))
        return b"%b.%09dZ %b %b %b\n" % (
            self._second[1].encode(),
            moment % NANOSECONDS,
            stream.encode(),
            tag,
            text,
        )

    def _append_parts(self, parts: list[bytes]) -> None:
        """Append lines together, as many as a file still takes."""
        together: list[bytes] = []
        size = self._size
        for part in parts:
            if together and size + len(part) > self._most_bytes:
                self._append(b"".join(together))
                together, size = [], 0
            together.append(part)
            size += len(part)
        self._append(b"".join(together))

    def _append(self, content: bytes) -> None:
        if not content:
            return
        if self._size and self._size + len(content) > self._most_bytes:
            self._rotate()
        with suppress(OSError):  # a full disk must not stop the pod; its output is lost
            self._size += os.write(self._file, content)

    def _rotate(self) -> None:
        os.close(self._file)
        with suppress(FileNotFoundError):
            os.remove(f"{self._path}.{self._most_files - 1}")
        for number in range(self._most_files - 2, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        if self._most_files > 1:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.remove(self._path)
        self._file = self._opened()

    def _opened(self) -> int:
        self._size = 0
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
