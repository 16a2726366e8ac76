"""``tools.package_check``: an archive with a file too few or too many is refused. `make package` builds real ones."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import package_check


def sdist_of(folder: Path, *names: str) -> Path:
    made = folder / "pumice-1.tar.gz"
    (folder / "content").write_text("x")
    with tarfile.open(made, "w:gz") as archive:
        for name in names:
            archive.add(folder / "content", f"pumice-1/{name}")
    return made


def wheel_of(folder: Path, *names: str) -> Path:
    made = folder / "pumice-1.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return made


def test_sdist_holds_the_tracked_files(tmp_path: Path) -> None:
    package_check.check_sdist(
        sdist_of(tmp_path, "PKG-INFO", "Makefile", "src/pumice/a.py"), {"Makefile", "src/pumice/a.py"}
    )
    with pytest.raises(package_check.PackageError, match=r"missing \['Makefile'\], not tracked \['notes'\]"):
        package_check.check_sdist(sdist_of(tmp_path, "notes"), {"Makefile"})


def test_wheel_holds_the_packages_and_the_license(tmp_path: Path) -> None:
    license_file = "pumice-1.dist-info/licenses/LICENSE"
    tracked = {"src/pumice/a.yaml", "tests/test_a.py"}
    package_check.check_wheel(wheel_of(tmp_path, "pumice/a.yaml", license_file), tracked)
    with pytest.raises(package_check.PackageError, match=r"missing \['pumice/a.yaml'\]"):
        package_check.check_wheel(wheel_of(tmp_path, license_file), tracked)
    with pytest.raises(package_check.PackageError, match="holds no LICENSE"):
        package_check.check_wheel(wheel_of(tmp_path, "pumice/a.yaml"), tracked)


def test_programs_are_those_of_the_project() -> None:
    scripts = tomllib.loads((package_check.ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {*package_check.PROGRAMS} == {*scripts}
