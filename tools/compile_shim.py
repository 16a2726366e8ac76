"""Compile the shim of plain pods: what ``pumice/agent/shim`` does in Python, for a fraction of the cpu time.

python tools/compile_shim.py FOLDER

Writes ``pumice/agent/native/pumice-shim`` below FOLDER. Needs a C compiler and Linux; where one is missing, the shim in
Python runs all pods. tools/compile_engine.py and hatch_build.py call this.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("pumice/agent/native")
PROGRAM = SOURCE / "pumice-shim"
OPTIONS = ("-O2", "-Wall", "-Wextra")
NOT_AVAILABLE = 3


def missing_compiler() -> str | None:
    """What this machine lacks to compile; None if it has everything."""
    if not sys.platform.startswith("linux"):
        return "Linux"
    compiler = compiler_command()[0]
    return f"the C compiler {compiler}" if shutil.which(compiler) is None else None


def compile_shim(folder: Path, source: Path = ROOT / "src") -> Path:
    """Compile the sources into a folder; returns the program, relative to it."""
    (folder / SOURCE).mkdir(parents=True, exist_ok=True)
    files = sorted(map(str, (source / SOURCE).glob("*.c")))
    subprocess.run([*compiler_command(), *OPTIONS, "-o", str(folder / PROGRAM), *files, "-lm"], check=True)
    return PROGRAM


def compiler_command() -> list[str]:
    """The C compiler as Python was compiled with, unless the environment names another."""
    return shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"))


def main(arguments: list[str]) -> int:
    """Compile into the folder given."""
    if len(arguments) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    lack = missing_compiler()
    if lack is not None:
        sys.stderr.write(f"cannot compile the shim: {lack} is not there\n")
        return NOT_AVAILABLE
    try:
        compile_shim(Path(arguments[0]))
    except subprocess.CalledProcessError as failure:
        sys.stderr.write(f"cannot compile the shim: the compiler ended with status {failure.returncode}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
