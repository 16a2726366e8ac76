"""Compile the engine with mypyc: the same modules, about twice as fast.

python tools/compile_engine.py FOLDER

Copies ``src`` into FOLDER and compiles the modules named below in place, so that FOLDER can stand on ``PYTHONPATH``
instead of ``src``. FOLDER is replaced if it is the result of an earlier run. Needs a C compiler, the headers of Python,
and the packages pinned in requirements/compile.txt; without one of these the tool says which and exits with status 3.
The sources in ``src`` stay as they are: they run uncompiled for development and wherever there is no compiler.
hatch_build.py calls this for wheels. The loops that are there in C too, those of the node table and of the target
solver, are compiled with it (tools/compile_kernel.py), and so is the shim of the node agent (tools/compile_shim.py).

``PUMICE_ENGINE_CACHE`` names a folder in which compiled libraries are kept, by a hash of everything they are made from;
the same sources are then compiled once.

The rest of the engine stays interpreted: plugins, since other packages subclass them; NumPy code, which gains nothing;
and what runs once per start or per question of a user.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run by its path

from tools import compile_kernel, compile_shim  # noqa: E402

PACKAGES = ("pumice/engine", "pumice/model")
MODULES = ("kubebase/resource_vector.py",)
IMPORTED = ("kubebase",)
"""Packages that the compiled modules import: their types decide how calls are compiled."""
INTERPRETED = (
    "pumice/engine/checkpoint/",  # decoded from the decision log by annotations, which compiled classes lose
    "pumice/engine/config/",  # read once
    "pumice/engine/events.py",  # decoded from the decision log
    "pumice/engine/explain/",  # answers users
    "pumice/engine/fairness/fluid_target/depth_steps.py",  # NumPy, as the others of the solver
    "pumice/engine/fairness/fluid_target/flat_tree.py",
    "pumice/engine/fairness/fluid_target/growth_paths.py",
    "pumice/engine/fairness/fluid_target/native_curves.py",  # imports what may be missing
    "pumice/engine/fairness/fluid_target/polyline.py",
    "pumice/engine/fairness/fluid_target/solver.py",
    "pumice/engine/fairness/fluid_target/solver_limits.py",
    "pumice/engine/fairness/fluid_target/solver_phase.py",
    "pumice/engine/fairness/limits/user_limits.py",  # mypyc 2.4 does not compile its nested lambda
    "pumice/engine/placement/native_table.py",  # imports what may be missing
    "pumice/engine/plugins/builtin/",  # subclassed by other packages, as the next
    "pumice/engine/plugins/plugin.py",
    "pumice/engine/preemption/cooldown.py",  # decoded from the decision log
    "pumice/model/hyper_nodes.py",  # decoded from the decision log
    "pumice/model/specs.py",  # decoded from the decision log
    "pumice/model/task_topology.py",  # decoded from the decision log
)
GROUP = "pumice_engine"
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
"""The versions of CPython on which the compiled engine is tested."""
BUILD_PACKAGES = {"mypy": "mypyc", "numpy": "numpy", "setuptools": "setuptools"}
"""Packages that compile the engine, and the module by which each is found; numpy for its types."""
MARKER = "compiled-engine.txt"
KEPT = 4
"""Builds in the cache: the versions that a developer switches between."""
NOT_AVAILABLE = 3

# One C file per module and -O2: 95 s of CPU on the machine of docs/performance.md, spread over all cores, against 210 s
# in one process for all modules in one file, at the same speed of the engine.
BUILD = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

WORKERS = os.cpu_count() or 1

class ParallelBuild(build_ext):
    def build_extensions(self):
        compile_sources = self.compiler.compile

        def compile_in_parallel(sources, **options):
            largest_first = sorted(sources, key=os.path.getsize, reverse=True)
            with ThreadPoolExecutor(WORKERS) as pool:
                made = dict(zip(largest_first, pool.map(lambda one: compile_sources([one], **options), largest_first)))
            return [compiled for source in sources for compiled in made[source]]

        self.compiler.compile = compile_in_parallel
        super().build_extensions()

# The modules that are not compiled are read for their types alone; the packages that they import may be absent.
flags = ["--strict", "--follow-imports=silent", "--namespace-packages", "--explicit-package-bases", *sys.argv[1:]]
setup(
    name="pumice-engine",
    packages=[],
    ext_modules=mypycify(flags, opt_level="2", debug_level="0", multi_file=True, group_name=GROUP),
    cmdclass={"build_ext": ParallelBuild},
    script_args=["-q", "build_ext", "--inplace", f"--parallel={WORKERS}"],
)
"""


def compiled_modules(source: Path) -> list[str]:
    """The modules to compile, relative to a source folder."""
    found = [path.relative_to(source).as_posix() for package in PACKAGES for path in (source / package).rglob("*.py")]
    return sorted(
        path
        for path in (*found, *MODULES)
        if not path.startswith(INTERPRETED) and not path.endswith("/__init__.py")  # packages hold names, no code
    )


def missing_toolchain() -> str | None:
    """The first thing that this machine lacks to compile, apart from Python packages; None if it has everything."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in PYTHONS:
        return f"CPython {'.'.join(map(str, PYTHONS[0]))} to {'.'.join(map(str, PYTHONS[-1]))}"
    compiler = _compiler()
    if shutil.which(compiler[0]) is None:
        return f"the C compiler {compiler[0]}"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python (Python.h)"
    return None


def missing_package() -> str | None:
    """The first Python package that this interpreter lacks to compile; None if it has all of them."""
    absent = [name for name, module in BUILD_PACKAGES.items() if importlib.util.find_spec(module) is None]
    return f"the Python package {absent[0]}" if absent else None


def compile_into(folder: Path, source: Path = ROOT / "src", cache: Path | None = None) -> list[Path]:
    """Copy the sources into a folder and compile them there; returns the libraries, relative to the folder."""
    if (folder / MARKER).exists():
        shutil.rmtree(folder)
    shutil.copytree(
        source,
        folder,
        ignore=shutil.ignore_patterns("__pycache__", "*.so", compile_shim.PROGRAM.name),
        dirs_exist_ok=True,
    )
    key = build_key(folder)
    (folder / MARKER).write_text(key + "\n")
    kept = cache / key if cache is not None else None
    if kept is not None and kept.exists():
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        kept.touch()
    else:
        _compile(folder)
    libraries = sorted(path.relative_to(folder) for path in folder.rglob("*.so"))
    if cache is not None and kept is not None and not kept.exists():
        _keep(folder, libraries, kept)
        _forget_old(cache)
    return libraries


def build_key(folder: Path) -> str:
    """A hash of everything that the libraries are made from: sources, this tool, packages, interpreter, compiler."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    found.update(Path(compile_kernel.__file__).read_bytes())
    for package in sorted({*PACKAGES, *IMPORTED}):
        for path in sorted(path for path in (folder / package).rglob("*.*") if path.suffix in (".py", ".c", ".pyi")):
            found.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    for name in BUILD_PACKAGES:
        found.update(f"{name} {importlib.metadata.version(name)}\n".encode())
    version = subprocess.run([*_compiler(), "--version"], capture_output=True, check=False).stdout
    found.update(f"{sys.version} {sysconfig.get_platform()} {os.environ.get('CFLAGS')}\n".encode() + version)
    return found.hexdigest()[:24]


def _compile(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", BUILD.replace("GROUP", repr(GROUP)), *compiled_modules(folder)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder)},
        check=True,
        stdout=sys.stderr,
    )
    for source in compile_kernel.KERNELS:
        compile_kernel.compile_kernel(source, folder, folder)
    shutil.rmtree(folder / "build", ignore_errors=True)


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"))


def _keep(folder: Path, libraries: Iterable[Path], kept: Path) -> None:
    """Copy libraries into the cache, so that an interrupted copy is never taken for a complete one."""
    half = kept.with_name(f"{kept.name}.{os.getpid()}")
    for library in libraries:
        (half / library).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / library, half / library)
    if not kept.exists():
        half.replace(kept)


def _forget_old(cache: Path) -> None:
    builds = sorted((path for path in cache.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in builds[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """Compile into the folder given."""
    if len(arguments) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    lack = missing_toolchain() or missing_package()
    if lack is not None:
        sys.stderr.write(f"cannot compile the engine: {lack} is not installed\n")
        return NOT_AVAILABLE
    folder = Path(arguments[0])
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        sys.stderr.write(f"cannot compile the engine into {folder}: it has other files\n")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    cache = os.environ.get("PUMICE_ENGINE_CACHE")
    try:
        libraries = compile_into(folder.resolve(), cache=Path(cache).resolve() if cache else None)
        if compile_shim.missing_compiler() is None:
            compile_shim.compile_shim(folder.resolve())
    except subprocess.CalledProcessError as failure:
        sys.stderr.write(f"cannot compile the engine: the build ended with status {failure.returncode}\n")
        return 1
    sys.stdout.write(f"{len(libraries)} compiled libraries in {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
