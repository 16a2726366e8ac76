"""The files of a decision log: their names and order."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"decisions-(\d{6,})\.jsonl")


def log_files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def begun_files(log: Path) -> list[Path]:
    """The files of a folder that have their first line, or the file itself.

    A scheduler that is killed at the wrong moment leaves a file that is empty, or has half a line.
    """
    return [path for path in log_files(log) if _has_first_line(path)] if log.is_dir() else [log]


def _has_first_line(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
