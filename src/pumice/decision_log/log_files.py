"""The files of a decision log: their names and order."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"decisions-(\d{6,})\.jsonl")


def log_files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]
