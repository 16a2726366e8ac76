"""Builds the sdist and the wheel, and tries the wheel in an empty environment, as a user would install it.

python -m tools.package_check [FOLDER]

The sdist must hold every tracked file, and the wheel, which is built from the sdist, every file of the packages. The
wheel is installed with the pinned requirements into a new virtual environment, where ``pumice --version`` and
``pumice demo`` must work outside of the checkout. FOLDER, if given, gets the two files.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAMS = ("pumice", "vcctl", "vqueues", "vjobs", "vsub", "vcancel", "vsuspend", "vresume")
GENERATED = {"PKG-INFO"}
"""Files of an sdist that no checkout has."""


class PackageError(Exception):
    """A package is incomplete, or does not work."""


def build_sdist(checkout: Path, folder: Path) -> Path:
    """Build the sdist of a checkout."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], checkout)
    return next(folder.glob("*.tar.gz"))


def build_wheel(sdist: Path, folder: Path, scratch: Path) -> Path:
    """Build the wheel from an sdist, so that the sdist is known to be enough."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], source)
    return next(folder.glob("*.whl"))


def check_sdist(sdist: Path, tracked: set[str]) -> None:
    """Raise PackageError unless the sdist holds the tracked files and nothing else."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    _compare(sdist, held - GENERATED, tracked)


def check_wheel(wheel: Path, tracked: set[str]) -> None:
    """Raise PackageError unless the wheel holds the tracked files of the packages and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    held = {name for name in names if ".dist-info/" not in name}
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
    demo = _run([str(folder / "bin" / "pumice"), "demo"], folder)
    if "root" not in demo:
        raise PackageError(f"pumice demo shows no queue tree:\n{demo}")
    return _run([str(folder / "bin" / "pumice"), "--version"], folder).strip()


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build, check and try the packages."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tracked = tracked_files(ROOT)
        sdist = build_sdist(ROOT, folder / "dist")
        check_sdist(sdist, tracked)
        wheel = build_wheel(sdist, folder / "dist", folder / "source")
        check_wheel(wheel, tracked)
        version = try_wheel(wheel, ROOT / "requirements" / "runtime.txt", folder / "environment")
        sys.stdout.write(f"{sdist.name}, {wheel.name}: complete, {version} runs\n")
        for target in sys.argv[1:]:
            Path(target).mkdir(parents=True, exist_ok=True)
            for file in (sdist, wheel):
                shutil.copy(file, target)


if __name__ == "__main__":
    try:
        main()
    except PackageError as error:
        sys.exit(str(error))
