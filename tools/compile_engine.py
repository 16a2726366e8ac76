"""Compile the engine with mypyc: the same modules, about twice as fast.

python tools/compile_engine.py FOLDER

Copies ``src`` into FOLDER and compiles the modules named below in place, so that FOLDER can stand on ``PYTHONPATH``
instead of ``src``. Needs mypy, setuptools, numpy (for its types) and a C compiler, and about three minutes of one core;
without one of these the tool says which and exits with status 3. The sources in ``src`` stay as they are: they run
uncompiled for development and wherever there is no compiler. hatch_build.py calls this for wheels.

The rest of the engine stays interpreted: plugins, since other packages subclass them; NumPy code, which gains nothing;
and what runs once per start or per question of a user.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pumice/engine", "pumice/model")
MODULES = ("kubebase/resource_vector.py",)
INTERPRETED = (
    "pumice/engine/config/",  # read once
    "pumice/engine/explain/",  # answers users
    "pumice/engine/fairness/fluid_target/",  # NumPy
    "pumice/engine/fairness/limits/user_limits.py",  # mypyc 2.4 does not compile its nested lambda
    "pumice/engine/plugins/",  # subclassed by other packages
)
GROUP = "pumice_engine"
NOT_AVAILABLE = 3

BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup
modules, sys.argv[1:] = sys.argv[1:], ["-q", "build_ext", "--inplace"]
flags = ["--strict", "--namespace-packages", "--explicit-package-bases", *modules]
setup(name="pumice-engine", packages=[], ext_modules=mypycify(flags, opt_level="2", debug_level="0", group_name=GROUP))
"""


def compiled_modules(source: Path) -> list[str]:
    """The modules to compile, relative to a source folder."""
    found = [path.relative_to(source).as_posix() for package in PACKAGES for path in (source / package).rglob("*.py")]
    return sorted(
        path
        for path in (*found, *MODULES)
        if not path.startswith(INTERPRETED) and not path.endswith("/__init__.py")  # packages hold names, no code
    )


def missing_tool() -> str | None:
    """What this interpreter lacks to compile; None if nothing."""
    for module in ("mypyc", "setuptools", "numpy"):
        if importlib.util.find_spec(module) is None:
            return f"the Python package {module.replace('mypyc', 'mypy')}"
    compiler = (os.environ.get("CC") or str(sysconfig.get_config_var("CC"))).split()[0]
    if shutil.which(compiler) is None:
        return f"the C compiler {compiler}"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python (Python.h)"
    return None


def compile_into(folder: Path, source: Path = ROOT / "src") -> list[Path]:
    """Copy the sources into a folder and compile them there; returns the libraries, relative to the folder."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"), dirs_exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", BUILD.replace("GROUP", repr(GROUP)), *compiled_modules(folder)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder)},
        check=True,
        stdout=sys.stderr,
    )
    shutil.rmtree(folder / "build", ignore_errors=True)
    return sorted(path.relative_to(folder) for path in folder.rglob("*.so"))


def main(arguments: list[str]) -> int:
    """Compile into the folder given."""
    if len(arguments) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    lack = missing_tool()
    if lack is not None:
        sys.stderr.write(f"cannot compile the engine: {lack} is not installed\n")
        return NOT_AVAILABLE
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        libraries = compile_into(folder.resolve())
    except subprocess.CalledProcessError as failure:
        sys.stderr.write(f"cannot compile the engine: the build ended with status {failure.returncode}\n")
        return 1
    sys.stdout.write(f"{len(libraries)} compiled libraries in {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
