"""Tests that start shims run with the compiled one too, where there is a C compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.agent import shim_start
from tools.compile_shim import compile_shim, missing_compiler

SHIM_TESTS = ("test_much_output.py", "test_pod_shim.py", "test_shim_start.py")


@pytest.fixture(scope="session")
def native_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled server of shims."""
    if lack := missing_compiler():
        pytest.skip(f"{lack} is not there")
    folder = tmp_path_factory.mktemp("native")
    return folder / compile_shim(folder)


@pytest.fixture(autouse=True)
def shim_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which shims are started: those in Python, or compiled ones. For other tests, those of the installation."""
    if hasattr(request, "param"):
        chosen = request.getfixturevalue("native_shim") if request.param == "native" else Path("/no/native/shim")
        monkeypatch.setattr(shim_start, "NATIVE", chosen)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both kinds for tests of shims."""
    if metafunc.definition.path.name in SHIM_TESTS:
        metafunc.parametrize("shim_kind", ["python", "native"], indirect=True)
