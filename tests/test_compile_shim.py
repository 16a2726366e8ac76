"""tools/compile_shim.py: what it makes, and what it says where there is no compiler."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pumice.agent import shim_start
from tests.support.processes import run_process
from tools import compile_shim

TOOL = compile_shim.ROOT / "tools" / "compile_shim.py"


def test_the_program_is_where_the_agent_looks_for_it() -> None:
    assert Path("src") / compile_shim.PROGRAM == shim_start.NATIVE.relative_to(compile_shim.ROOT)


@pytest.mark.skipif(compile_shim.missing_compiler() is not None, reason="no C compiler")
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    done = run_process([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(tmp_path / compile_shim.PROGRAM, os.X_OK)


def test_without_a_compiler_it_says_so(tmp_path: Path) -> None:
    missing = {**os.environ, "CC": "no-such-compiler"}
    done = run_process([sys.executable, TOOL, tmp_path], capture_output=True, text=True, env=missing)
    assert done.returncode == compile_shim.NOT_AVAILABLE
    assert done.stderr == "cannot compile the shim: the C compiler no-such-compiler is not there\n"
    assert not list(tmp_path.iterdir())


def test_an_installation_without_it_has_the_server_in_python_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_start, "NATIVE", tmp_path / "pumice-shim")
    assert [command[0] for command in shim_start.server_commands()] == [sys.executable]
    (tmp_path / "pumice-shim").touch(mode=0o755)
    assert [command[0] for command in shim_start.server_commands()] == [str(tmp_path / "pumice-shim"), sys.executable]
