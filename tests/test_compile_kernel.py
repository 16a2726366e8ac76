"""tools/compile_kernel.py: what it makes, and what it says where it cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_process
from tools import compile_kernel, compile_shim

TOOL = compile_kernel.ROOT / "tools" / "compile_kernel.py"


@pytest.mark.process
@pytest.mark.skipif(compile_shim.missing_compiler() is not None, reason="no C compiler")
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    done = run_process([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for source in compile_kernel.KERNELS:
        assert (tmp_path / compile_kernel.library(source)).exists()


@pytest.mark.process
def test_without_a_compiler_it_says_so(tmp_path: Path) -> None:
    missing = {**os.environ, "CC": "no-such-compiler"}
    done = run_process([sys.executable, TOOL, tmp_path], capture_output=True, text=True, env=missing)
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot compile {compile_kernel.NODES}: ") and "no-such-compiler" in done.stderr


@pytest.mark.parametrize("source", compile_kernel.KERNELS)
def test_the_source_is_where_the_tool_looks_for_it(source: Path) -> None:
    assert (compile_kernel.ROOT / "src" / source).exists()
    assert compile_kernel.library(source).name.startswith(f"{source.stem}.")


def test_it_wants_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_kernel.main([]) == 2
    assert "tools/compile_kernel.py FOLDER" in capsys.readouterr().err
