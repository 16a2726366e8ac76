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


def wheel_of(folder: Path, *names: str, tag: str = "pumice-1-py3-none-any.whl") -> Path:
    made = folder / tag
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name == package_check.SHIM else 0o644) << 16
            archive.writestr(entry, "x")
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


def test_form_of_a_wheel_agrees_with_its_tag(tmp_path: Path) -> None:
    source, library = "pumice/a.py", "pumice/a.cpython-311-x86_64-linux-gnu.so"
    terms, shim = "pumice-1.dist-info/licenses/LICENSE", package_check.SHIM
    platform = "pumice-1-cp311-cp311-linux_x86_64.whl"
    complete = wheel_of(tmp_path, source, library, shim, terms, tag=platform)
    package_check.check_wheel(complete, {"src/pumice/a.py"}, compiled=True)
    for names, tag, compiled, problem in (
        ((source, library, terms), platform, False, r"holds 1 compiled libraries"),
        ((source, library, terms), "pumice-1-py3-none-any.whl", True, r"holds 1 compiled libraries"),
        ((source, shim, terms), platform, True, r"holds 0 compiled libraries"),
        ((source, terms), platform, False, r"holds 0 compiled libraries"),
        ((source, library, terms), platform, True, r"holds 0 shims"),
        ((source, shim, terms), "pumice-1-py3-none-any.whl", False, r"holds 1 shims"),
    ):
        wheel = wheel_of(tmp_path, *names, tag=tag)
        with pytest.raises(package_check.PackageError, match=problem):
            package_check.check_wheel(wheel, {"src/pumice/a.py"}, compiled=compiled)


def test_without_compiler_only_ci_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(package_check.compile_engine, "missing_toolchain", lambda: "the C compiler cc")
    monkeypatch.delenv("CI", raising=False)
    assert package_check.forms() == [False]
    assert capsys.readouterr().out == "no wheel with the compiled engine: the C compiler cc is not installed\n"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(package_check.PackageError, match="the C compiler cc is not installed"):
        package_check.forms()


def test_programs_are_those_of_the_project() -> None:
    scripts = tomllib.loads((package_check.ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {*package_check.PROGRAMS} == {*scripts}
