"""Starts shims: with a bare interpreter, which loads neither installed packages nor settings of the environment."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).parents[2]
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pumice.agent.shim.main import main; sys.exit(main(sys.argv[2]))"
)


class ShimStartError(Exception):
    """A shim did not come up."""


def shim_command(folder: Path) -> list[str]:
    """The command that starts the shim of a pod's folder and returns once it runs."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_SOURCE), str(folder)]


async def start_shim(folder: Path) -> None:
    """Start the shim of a pod's folder, unless there is or was one."""
    with (folder / "shim.log").open("ab") as log:
        done = await asyncio.to_thread(
            subprocess.run, shim_command(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    if done.returncode != 0:
        raise ShimStartError(f"the shim did not start: exit status {done.returncode}; see {folder / 'shim.log'}")
