"""When ``tools.node_binaries`` builds nothing, and what it says then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tools import node_binaries
from tools.kubernetes_binaries import BUILT, NOT_AVAILABLE, cache


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")


def fill_cache() -> None:
    programs = [
        *(cache() / name for name in BUILT),
        *(node_binaries.folder() / name for name in node_binaries.PROGRAMS),
    ]
    for program in programs:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)


def lacking(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in absent else f"/bin/{name}")


def test_complete_cache_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    fill_cache()
    assert node_binaries.main(["--check"]) == 0
    assert capsys.readouterr().out == f"{node_binaries.folder()}\n"


def test_check_builds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fill_cache()
    for missing in (cache() / "etcd", node_binaries.folder() / "runc"):
        missing.unlink()
    assert node_binaries.main(["--check"]) == NOT_AVAILABLE
    assert capsys.readouterr().err == "etcd, runc would have to be built first\n"


def test_only_root_can_run_nodes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fill_cache()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert node_binaries.main([]) == NOT_AVAILABLE
    assert capsys.readouterr().err == "only root can make the namespaces of a node\n"


@pytest.mark.parametrize(
    ("absent", "reason"),
    [
        (("unshare", "kubectl"), "there is no kubectl, no unshare on PATH"),
        (("go",), "there is no Go to build"),
        (("runc", "apt-get"), "there is no runc on PATH, and no apt-get and dpkg-deb to fetch its package with"),
    ],
)
def test_missing_program_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], absent: tuple[str, ...], reason: str
) -> None:
    lacking(monkeypatch, *absent)
    assert node_binaries.main([]) == NOT_AVAILABLE
    assert capsys.readouterr().err.startswith(reason)


def test_program_of_a_package_is_the_file_and_no_link_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def download_and_unpack(place: Path, *command: str) -> None:
        if command[0] == "apt-get":
            (place / "runc_1_amd64.deb").touch()
            return
        unpacked = place / command[-1] / "usr"
        for folder in ("bin", "sbin"):
            (unpacked / folder).mkdir(parents=True)
        (unpacked / "sbin" / "runc").write_text("the program")
        (unpacked / "bin" / "runc").symlink_to("../sbin/runc")

    monkeypatch.setattr(node_binaries, "_run", download_and_unpack)
    program = node_binaries.packaged_program("runc", "runc", tmp_path)
    assert program == tmp_path / "runc"
    assert not program.is_symlink()
    assert program.read_text() == "the program"
