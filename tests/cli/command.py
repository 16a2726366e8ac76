"""The real command, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pumice
from tests.support.processes import run_process

SOURCES = Path(pumice.__file__).parents[1]
EXAMPLES = Path(__file__).parents[2] / "examples"


def pumice_command(
    *arguments: object, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pumice`` with these arguments and this standard input."""
    return _run(["-m", "pumice"], arguments, given, environment)


def program(
    name: str, *arguments: object, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run another of our programs, ``vqueues`` say, as its script does."""
    return _run(["-c", script(name)], arguments, given, environment)


def script(name: str) -> str:
    """What the script of a program does."""
    return f"from pumice.cli.cluster.volcano_programs import run_{name}; run_{name}()"


def _run(
    python: list[str], arguments: tuple[object, ...], given: str | None, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    surroundings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    return run_process(
        [sys.executable, *python, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        env=surroundings | {"PYTHONPATH": str(SOURCES), "PYTHONIOENCODING": "utf-8"} | environment,
    )
