"""tools/compile_engine.py: which modules are compiled, and what it refuses."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from pumice.cli.engine_form import engine_form
from tests.support.processes import run_process
from tools import compile_engine

SOURCE = compile_engine.ROOT / "src"


def test_every_exception_from_compilation_exists() -> None:
    for path in (*compile_engine.INTERPRETED, *compile_engine.PACKAGES, *compile_engine.MODULES):
        assert (SOURCE / path).exists(), path


def test_cycle_and_its_helpers_are_compiled_but_plugins_are_not() -> None:
    modules = compile_engine.compiled_modules(SOURCE)
    assert {"pumice/engine/cycle.py", "pumice/engine/transaction.py", "kubebase/resource_vector.py"} <= set(modules)
    assert not [path for path in modules if "/plugins/" in path or path.endswith("__init__.py")]


def test_compiled_modules_use_no_weak_references() -> None:
    # Compiled classes cannot be referred to weakly, and one with __lt__ alone has no hash.
    for path in compile_engine.compiled_modules(SOURCE):
        tree = ast.parse((SOURCE / path).read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not {name for name in names if name.startswith("Weak")}, path
        assert "__weakref__" not in (SOURCE / path).read_text(), path


def test_interpreter_without_mypy_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_engine.importlib.util, "find_spec", lambda name: None if name == "mypyc" else object())
    assert compile_engine.main([str(tmp_path / "out")]) == compile_engine.NOT_AVAILABLE
    assert capsys.readouterr().err == "cannot compile the engine: the Python package mypy is not installed\n"
    assert not (tmp_path / "out").exists()


def test_folder_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_engine.main([]) == 2
    assert "tools/compile_engine.py FOLDER" in capsys.readouterr().err


def test_form_of_the_engine_is_the_one_that_is_imported() -> None:
    code = "import pumice.engine.cycle as cycle; print(cycle.__file__)"
    done = run_process([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(".py") == (engine_form() == "pure Python")
