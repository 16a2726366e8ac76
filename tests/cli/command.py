"""The real command, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pumice

SOURCES = Path(pumice.__file__).parents[1]
EXAMPLES = Path(__file__).parents[2] / "examples"


def pumice_command(
    *arguments: object, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pumice`` with these arguments and this standard input."""
    surroundings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "pumice", *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        env=surroundings | {"PYTHONPATH": str(SOURCES), "PYTHONIOENCODING": "utf-8"} | environment,
    )
