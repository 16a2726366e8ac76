"""Compile the inner loops of the node table: what ``pumice/engine/placement/node_table.py`` does in Python and NumPy.

python tools/compile_kernel.py FOLDER

Writes the module ``pumice.engine.placement.node_kernel`` below FOLDER. Needs a C compiler and the headers of Python;
where one is missing, the node table runs in Python. tools/compile_engine.py calls this. By hand, with ``src`` as
FOLDER, it serves a checkout (Git ignores the library).
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

SOURCE = Path("pumice/engine/placement/node_kernel.c")
# A fused multiply-add rounds once where Python rounds twice: scores would differ in the last bit.
OPTIONS = ("-O3", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra")


def library() -> Path:
    """The compiled module, relative to the folder of the sources."""
    return SOURCE.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))


def compile_kernel(folder: Path, source: Path = ROOT / "src") -> Path:
    """Compile the module into a folder; returns the library, relative to it."""
    target = folder / library()
    target.parent.mkdir(parents=True, exist_ok=True)
    include = f"-I{sysconfig.get_path('include')}"
    link = shlex.split(str(sysconfig.get_config_var("LDSHARED") or "cc -shared"))[1:]
    command = [*compiler_command(), *OPTIONS, include, *link, "-o", str(target), str(source / SOURCE)]
    subprocess.run(command, check=True)
    return library()


def main(arguments: list[str]) -> int:
    """Compile into the folder given."""
    if len(arguments) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    try:
        compile_kernel(Path(arguments[0]))
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.stderr.write(f"cannot compile the node table: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
