"""Reads the files of a decision log in order, and checks that no line was changed, removed, inserted or moved.

Each line has a hash over itself and the line before (see ``decision_log.line_chain``). A last line without its end of
line was being written when the process died, or while the log is in use: it is not an alteration and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.audit.log_lines import FORMATS, AnyLine, HeadingLine, read_line
from pumice.decision_log.line_chain import chain_of, unsealed
from pumice.decision_log.log_files import log_files


class UnusableLogError(Exception):
    """A log that cannot be audited, and why."""


class AlteredLogError(Exception):
    """A log that is not as it was written: the file, the line and what is wrong there."""


@dataclass(slots=True)
class ChainSeen:
    """What the hashes of a log say."""

    lines: int = 0  # whose hashes hold
    chain: str = ""  # of the last line
    began: str = ""  # the hash that the first file follows, of a file that is not here
    unchained: list[Path] = field(default_factory=list)  # files of a format without hashes
    torn: list[Path] = field(default_factory=list)  # files that end in half a line
    empty: list[Path] = field(default_factory=list)  # files without a line


@dataclass(slots=True)
class LogReader:
    """The lines of a file, or of a folder of them, in order. ``at`` is where the last line stands."""

    path: Path
    progress: Callable[[int], None] = lambda size: None
    seen: ChainSeen = field(default_factory=ChainSeen)
    file: Path = Path()
    line: int = 0

    @property
    def at(self) -> str:
        """The file and the line that was read last."""
        return f"{self.file}:{self.line}"

    def files(self) -> list[Path]:
        """The files in order; raises UnusableLogError."""
        try:
            found = log_files(self.path) if self.path.is_dir() else [self.path]
        except OSError as error:
            raise UnusableLogError(f"{self.path}: {error.strerror}") from None
        if not found:
            raise UnusableLogError(f"{self.path}: no decision log in this directory; its files are decisions-*.jsonl")
        return found

    def __iter__(self) -> Iterator[AnyLine]:
        """All lines, those of each file beginning with its heading."""
        readable = 0
        for number, path in enumerate(self.files()):
            self.file, self.line = path, 0
            try:
                for line in self._file(first=number == 0):
                    readable += 1
                    yield line
            except OSError as error:
                raise UnusableLogError(f"{path}: {error.strerror}") from None
        if not readable:
            raise UnusableLogError(f"{self.path}: not a decision log, or truncated before its first record")

    def _file(self, *, first: bool) -> Iterator[AnyLine]:
        chained = True
        with self.file.open("rb") as file:
            for self.line, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    self.seen.torn.append(self.file)
                    return
                line = self._decoded(text)
                if self.line == 1:
                    chained = self._heading(line, first=first)
                if chained:
                    self._check(text[:-1])
                yield line
                self.progress(len(text))
        if not self.line:
            self.seen.empty.append(self.file)

    def _decoded(self, text: bytes) -> AnyLine:
        try:
            return read_line(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if self.line > 1:
                raise AlteredLogError(f"{self.at}: not a record of a decision log: {error}") from None
            raise UnusableLogError(f"{self.at}: not a decision log: {error}") from None

    def _heading(self, line: AnyLine, *, first: bool) -> bool:
        """Check the first line of a file; returns whether its lines are chained."""
        if not isinstance(line, HeadingLine):
            raise UnusableLogError(f"{self.file}: not a decision log: its first line is no heading")
        if line.format not in FORMATS:
            raise UnusableLogError(
                f"{self.file}: written by Pumice {line.pumice} in format {line.format}; this version reads formats "
                f"{' and '.join(map(str, FORMATS))}"
            )
        if line.format == FORMATS[0]:
            self.seen.unchained.append(self.file)
            return False
        if first:
            self.seen.began = self.seen.chain = line.follows
        elif line.follows != self.seen.chain:
            raise AlteredLogError(
                f"{self.at}: this file does not continue the file before: it follows a line with the hash "
                f"{line.follows or '(none)'}, and the last line there has {self.seen.chain or '(none)'}; lines at the "
                "end of that file, or files between the two, are missing, or the files are not in their order"
            )
        return True

    def _check(self, text: bytes) -> None:
        body, said = unsealed(text)
        expected = chain_of(body, self.seen.chain)
        if said != expected:
            found = f"has the hash {said}" if said else "has no hash"
            raise AlteredLogError(
                f"{self.at}: this line {found}, and {expected} is right after the line before: this line was altered "
                "or inserted, or lines before it were removed or moved"
            )
        self.seen.chain = said
        self.seen.lines += 1
