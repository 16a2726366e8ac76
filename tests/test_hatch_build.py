"""hatch_build.py: when a wheel contains the compiled engine. `make package` builds both forms."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import hatch_build


class Warnings:
    """What the hook says to whoever builds."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display_warning(self, message: str) -> None:
        self.shown.append(message)


@pytest.fixture(autouse=True)
def _undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUMICE_PURE", raising=False)
    monkeypatch.delenv("PUMICE_COMPILE", raising=False)
    monkeypatch.setattr(hatch_build.compile_engine, "missing_toolchain", lambda: None)


def build_with(
    monkeypatch: pytest.MonkeyPatch, status: int = 0, *, version: str = "standard"
) -> tuple[dict[str, Any], Warnings]:
    """The data of a build in which the tool ends with this status, and the warnings."""

    def run_tool(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if status == 0:
            (Path(command[-1]) / "pumice").mkdir()
            (Path(command[-1]) / "pumice" / "cycle.so").write_text("library")
        return subprocess.CompletedProcess(command, status, "", "error: it does not compile\n")

    monkeypatch.setattr(hatch_build.subprocess, "run", run_tool)
    warnings = Warnings()
    root = str(hatch_build.ROOT)
    hook = hatch_build.CompiledEngineHook(root, {}, None, None, "", "wheel", warnings)
    data: dict[str, Any] = {"force_include": {}, "pure_python": True}
    hook.initialize(version, data)
    hook.finalize(version, data, "")
    return data, warnings


def test_machine_with_compiler_builds_a_platform_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    data, warnings = build_with(monkeypatch)
    assert list(data["force_include"].values()) == ["pumice/cycle.so"]
    assert (data["pure_python"], data["infer_tag"], warnings.shown) == (False, True, [])


def test_pure_python_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUMICE_PURE", "1")
    monkeypatch.setenv("PUMICE_COMPILE", "1")
    data, _ = build_with(monkeypatch)
    assert data == {"force_include": {}, "pure_python": True}


def test_editable_install_is_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUMICE_COMPILE", "1")
    data, _ = build_with(monkeypatch, version="editable")
    assert data == {"force_include": {}, "pure_python": True}


def test_machine_without_compiler_builds_a_pure_wheel_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hatch_build.compile_engine, "missing_toolchain", lambda: "the C compiler cc")
    data, warnings = build_with(monkeypatch)
    assert data == {"force_include": {}, "pure_python": True} and not warnings.shown
    assert not hatch_build.should_compile()
    monkeypatch.setenv("PUMICE_COMPILE", "1")
    assert hatch_build.should_compile()


def test_missing_packages_fall_back_in_silence_and_failures_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    data, warnings = build_with(monkeypatch, hatch_build.compile_engine.NOT_AVAILABLE)
    assert data == {"force_include": {}, "pure_python": True} and not warnings.shown
    data, warnings = build_with(monkeypatch, 1)
    assert data == {"force_include": {}, "pure_python": True}
    assert warnings.shown == ["error: it does not compile\nthe wheel is pure Python"]


@pytest.mark.parametrize("status", [1, hatch_build.compile_engine.NOT_AVAILABLE])
def test_required_compilation_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("PUMICE_COMPILE", "1")
    with pytest.raises(RuntimeError, match="it does not compile"):
        build_with(monkeypatch, status)


def test_build_asks_for_pinned_packages_only_where_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = hatch_build.CompiledEngineHook(str(hatch_build.ROOT), {}, None, None, "", "wheel", None)
    packages = hook.dependencies()
    assert {name.partition("==")[0] for name in packages} >= {*hatch_build.compile_engine.BUILD_PACKAGES}
    assert all("==" in name for name in packages)
    monkeypatch.setenv("PUMICE_PURE", "1")
    assert hook.dependencies() == []
