"""Compile the inner loops of the engine that are written in C beside a reference in Python and NumPy.

python tools/compile_kernel.py FOLDER

Writes the modules of ``KERNELS`` below FOLDER: the loops over nodes of the node table, and the arithmetic on curves of
the target solver. Needs a C compiler and the headers of Python; where one is missing, the reference runs.
tools/compile_engine.py calls this. By hand, with ``src`` as FOLDER, it serves a checkout (Git ignores the libraries).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run by its path

from tools.compile_shim import compiler_command  # noqa: E402

NODES = Path("pumice/engine/placement/node_kernel.c")
CURVES = Path("pumice/engine/fairness/fluid_target/curve_kernel.c")
KERNELS = (NODES, CURVES)
# A fused multiply-add rounds once where Python rounds twice: numbers would differ in the last bit.
OPTIONS = ("-O3", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra")


def library(source: Path) -> Path:
    """The compiled module of a source, relative to the folder of the sources."""
    return source.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))


def compile_kernel(source: Path, folder: Path, sources: Path = ROOT / "src") -> Path:
    """Compile a module into a folder; returns the library, relative to it."""
    target = folder / library(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    include = f"-I{sysconfig.get_path('include')}"
    link = shlex.split(str(sysconfig.get_config_var("LDSHARED") or "cc -shared"))[1:]
    command = [*compiler_command(), *OPTIONS, include, *link, "-o", str(target), str(sources / source)]
    subprocess.run(command, check=True)
    return library(source)


def main(arguments: list[str]) -> int:
    """Compile into the folder given."""
    if len(arguments) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    for source in KERNELS:
        try:
            compile_kernel(source, Path(arguments[0]))
        except (OSError, subprocess.CalledProcessError) as failure:
            sys.stderr.write(f"cannot compile {source}: {failure}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
