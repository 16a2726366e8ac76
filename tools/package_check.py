"""Builds the sdist and the wheels, and tries each wheel in an empty environment, as a user would install it.

python -m tools.package_check [FOLDER]

The sdist must hold every tracked file, and a wheel, which is built from the sdist, every file of the packages. There is
a wheel of pure Python, which fits everywhere, and one with the compiled engine for this platform and Python; without a
C compiler the tool says so and makes the first alone, unless ``CI=true``. A wheel is installed with the pinned
requirements into a new virtual environment, where ``pumice --version`` and ``pumice demo`` must work outside of the
checkout. FOLDER, if given, gets the files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools import compile_engine, compile_shim

ROOT = Path(__file__).parent.parent
PROGRAMS = ("pumice", "vcctl", "vqueues", "vjobs", "vsub", "vcancel", "vsuspend", "vresume")
GENERATED = {"PKG-INFO"}
"""Files of an sdist that no checkout has."""
SHIM = compile_shim.PROGRAM.as_posix()
"""The compiled shim, which a wheel with the compiled engine holds on Linux."""


class PackageError(Exception):
    """A package is incomplete, or does not work."""


def build_sdist(checkout: Path, folder: Path) -> Path:
    """Build the sdist of a checkout."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], checkout)
    return next(folder.glob("*.tar.gz"))


def build_wheel(sdist: Path, folder: Path, scratch: Path, *, compiled: bool) -> Path:
    """Build a wheel from an sdist, so that the sdist is known to be enough."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    choice = {"PUMICE_COMPILE": "1", "PUMICE_PURE": "0"} if compiled else {"PUMICE_PURE": "1"}
    before = set(folder.glob("*.whl"))
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], source, choice)
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


def check_sdist(sdist: Path, tracked: set[str]) -> None:
    """Raise PackageError unless the sdist holds the tracked files and nothing else."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    _compare(sdist, held - GENERATED, tracked)


def check_wheel(wheel: Path, tracked: set[str], *, compiled: bool = False) -> None:
    """Raise PackageError unless the wheel holds the tracked files of the packages, its metadata, and the right form."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        programs = {info.filename for info in archive.infolist() if info.external_attr >> 16 & 0o111} & {SHIM}
    if programs != ({SHIM} if compiled and "linux" in wheel.name else set()):
        raise PackageError(f"{wheel.name}: holds {len(programs)} shims that can be executed")
    libraries = {name for name in names if name.endswith(".so")}
    if bool(libraries) != compiled or wheel.name.endswith("-py3-none-any.whl") == compiled:
        raise PackageError(f"{wheel.name}: holds {len(libraries)} compiled libraries")
    held = {name for name in names - libraries - programs if ".dist-info/" not in name}
    _compare(wheel, held, {name.removeprefix("src/") for name in tracked if name.startswith("src/")})
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        raise PackageError(f"{wheel.name}: holds no LICENSE")


def _compare(archive: Path, held: set[str], wanted: set[str]) -> None:
    missing, extra = sorted(wanted - held), sorted(held - wanted)
    if missing or extra:
        raise PackageError(f"{archive.name}: missing {missing[:10]}, not tracked {extra[:10]}")


def tracked_files(checkout: Path) -> set[str]:
    """The files that git tracks or would track, and that exist."""
    listed = _run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], checkout)
    return {name for name in listed.splitlines() if (checkout / name).is_file()}


def try_wheel(wheel: Path, requirements: Path, folder: Path) -> str:
    """Install the wheel into a new environment and run it there; returns what ``pumice --version`` prints."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "--require-hashes", "-r", str(requirements)], folder)
    _run([*pip, "install", "--no-deps", str(wheel)], folder)
    _run([*pip, "check"], folder)
    absent = [name for name in PROGRAMS if not (folder / "bin" / name).exists()]
    if absent:
        raise PackageError(f"{wheel.name}: installs no {', '.join(absent)}")
    shims = [path for path in folder.glob(f"lib/python*/site-packages/{SHIM}") if not os.access(path, os.X_OK)]
    if shims:
        raise PackageError(f"{wheel.name}: installs {shims[0].name} without the right to execute it")
    demo = _run([str(folder / "bin" / "pumice"), "demo"], folder)
    if "root" not in demo:
        raise PackageError(f"pumice demo shows no queue tree:\n{demo}")
    return _run([str(folder / "bin" / "pumice"), "--version"], folder).strip()


def _run(command: list[str], folder: Path, settings: Mapping[str, str] = {}) -> str:
    environment = {**os.environ, **settings}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def forms() -> list[bool]:
    """Whether to compile, for each wheel to build."""
    lack = compile_engine.missing_toolchain() or compile_engine.missing_package()
    if lack is None:
        return [False, True]
    if os.environ.get("CI") == "true":
        raise PackageError(f"cannot compile the engine: {lack} is not installed")
    sys.stdout.write(f"no wheel with the compiled engine: {lack} is not installed\n")
    return [False]


def main() -> None:
    """Build, check and try the packages."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tracked = tracked_files(ROOT)
        sdist = build_sdist(ROOT, folder / "dist")
        check_sdist(sdist, tracked)
        sys.stdout.write(f"{sdist.name}: complete\n")
        for compiled in forms():
            scratch_of_form = folder / ("compiled" if compiled else "pure")
            wheel = build_wheel(sdist, folder / "dist", scratch_of_form / "source", compiled=compiled)
            check_wheel(wheel, tracked, compiled=compiled)
            version = try_wheel(wheel, ROOT / "requirements" / "runtime.txt", scratch_of_form / "environment")
            if ("compiled engine" in version) != compiled:
                raise PackageError(f"{wheel.name}: installs {version}")
            sys.stdout.write(f"{wheel.name}: complete, {version} runs\n")
        for target in sys.argv[1:]:
            Path(target).mkdir(parents=True, exist_ok=True)
            for file in (folder / "dist").iterdir():
                shutil.copy(file, target)


if __name__ == "__main__":
    try:
        main()
    except PackageError as error:
        sys.exit(str(error))
