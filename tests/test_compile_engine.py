"""tools/compile_engine.py: which modules are compiled, and what it refuses."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.cli.engine_form import engine_form
from pumice.decision_log.records import EVENTS, KINDS, Line
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint
from pumice.model.specs import NodeSpec
from tests.support.processes import run_process
from tools import compile_engine

SOURCE = compile_engine.ROOT / "src"


def test_every_exception_from_compilation_exists() -> None:
    for path in (*compile_engine.INTERPRETED, *compile_engine.PACKAGES, *compile_engine.MODULES):
        assert (SOURCE / path).exists(), path


def test_cycle_and_its_helpers_are_compiled_but_plugins_are_not() -> None:
    modules = compile_engine.compiled_modules(SOURCE)
    assert {"pumice/engine/cycle.py", "pumice/engine/transaction.py", "kubebase/resource_vector.py"} <= set(modules)
    assert {path for path in modules if "/plugins/" in path} == {"pumice/engine/plugins/plugin_chain.py"}
    assert not [path for path in modules if path.endswith("__init__.py")]


def test_compiled_modules_use_no_weak_references() -> None:
    # Compiled classes cannot be referred to weakly, and one with __lt__ alone has no hash.
    for path in compile_engine.compiled_modules(SOURCE):
        tree = ast.parse((SOURCE / path).read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not {name for name in names if name.startswith("Weak")}, path
        assert "__weakref__" not in (SOURCE / path).read_text(), path


def test_compiled_modules_override_no_attribute_by_a_property() -> None:
    # Compiled callers would read the attribute. mypy objects to such an override.
    assert [
        path for path in compile_engine.compiled_modules(SOURCE) if "[override]" in (SOURCE / path).read_text()
    ] == []


def test_compiled_classes_have_no_abstract_base() -> None:
    # They would share one cache of isinstance with all subclasses of ABC, so that it answers at random.
    for path in compile_engine.compiled_modules(SOURCE):
        tree = ast.parse((SOURCE / path).read_text())
        bases = {ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
        assert not bases & {"ABC", "abc.ABC"}, path


def decoded_classes(info: Any, found: set[type]) -> set[type]:
    """The classes of a type as msgspec sees it, and of everything inside it."""
    kind = getattr(info, "cls", None)
    if kind not in found:
        found |= {kind} if kind is not None else set()
        parts = [field.type for field in getattr(info, "fields", ())]
        for name in ("item_type", "key_type", "value_type"):
            parts += [getattr(info, name)] if hasattr(info, name) else []
        for part in (*parts, *getattr(info, "types", ()), *getattr(info, "item_types", ())):
            decoded_classes(part, found)
    return found


def test_classes_that_the_decision_log_decodes_are_not_compiled() -> None:
    compiled = {path.removesuffix(".py").replace("/", ".") for path in compile_engine.compiled_modules(SOURCE)}
    found: set[type] = set()
    for kind in (Line, *KINDS.values(), *EVENTS.values()):
        decoded_classes(msgspec.inspect.type_info(kind), found)
    assert {EngineCheckpoint, NodeSpec} <= found
    assert {kind for kind in found if kind.__module__ in compiled} == set()


def test_interpreter_without_mypy_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_engine, "missing_toolchain", lambda: None)
    monkeypatch.setattr(compile_engine.importlib.util, "find_spec", lambda name: None if name == "mypyc" else object())
    assert compile_engine.main([str(tmp_path / "out")]) == compile_engine.NOT_AVAILABLE
    assert capsys.readouterr().err == "cannot compile the engine: the Python package mypy is not installed\n"
    assert not (tmp_path / "out").exists()


def test_machine_without_compiler_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert compile_engine.main([str(tmp_path / "out")]) == compile_engine.NOT_AVAILABLE
    assert capsys.readouterr().err == "cannot compile the engine: the C compiler no-such-compiler is not installed\n"
    assert not (tmp_path / "out").exists()


def test_untested_interpreters_do_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_engine, "PYTHONS", ((3, 7), (3, 9)))
    assert compile_engine.missing_toolchain() == "CPython 3.7 to 3.9"


def test_folder_with_other_files_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_engine, "missing_toolchain", lambda: None)
    monkeypatch.setattr(compile_engine, "missing_package", lambda: None)
    (tmp_path / "notes").write_text("mine")
    assert compile_engine.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"cannot compile the engine into {tmp_path}: it has other files\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def small_source(folder: Path) -> Path:
    for name in ("pumice/engine/cycle.py", "pumice/model/specs.py", "kubebase/resource_vector.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("limit = 1\n")
    return folder


def test_same_sources_are_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled: list[Path] = []

    def compile_nothing(folder: Path) -> None:
        compiled.append(folder)
        (folder / "pumice" / "engine" / "cycle.so").write_text(str(len(compiled)))

    monkeypatch.setattr(compile_engine, "_compile", compile_nothing)
    monkeypatch.setattr(compile_engine, "build_key", lambda folder: (folder / "pumice/engine/cycle.py").read_text()[-2])
    source, cache, library = small_source(tmp_path / "src"), tmp_path / "cache", Path("pumice/engine/cycle.so")
    first, second = tmp_path / "first", tmp_path / "second"
    assert compile_engine.compile_into(first, source, cache) == [library]
    assert compile_engine.compile_into(second, source, cache) == [library]
    assert compiled == [first] and (second / library).read_text() == "1"
    (source / "pumice/engine/cycle.py").write_text("limit = 2\n")
    (second / "pumice" / "engine" / "gone.py").write_text("a module that was deleted\n")
    compile_engine.compile_into(second, source, cache)
    assert compiled == [first, second] and (second / library).read_text() == "2"
    assert not (second / "pumice" / "engine" / "gone.py").exists()
    for number in range(3, 9):
        (source / "pumice/engine/cycle.py").write_text(f"limit = {number}\n")
        compile_engine.compile_into(second, source, cache)
    assert len(list(cache.iterdir())) == compile_engine.KEPT


@pytest.mark.skipif(compile_engine.missing_package() is not None, reason="cannot compile here")
def test_key_of_a_build_follows_the_sources(tmp_path: Path) -> None:
    source = small_source(tmp_path)
    before = compile_engine.build_key(source)
    assert compile_engine.build_key(source) == before
    (source / "kubebase" / "label_selector.py").write_text("")
    added = compile_engine.build_key(source)
    (source / "pumice" / "model" / "specs.py").write_text("limit = 2\n")
    assert len({before, added, compile_engine.build_key(source)}) == 3


def test_folder_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_engine.main([]) == 2
    assert "tools/compile_engine.py FOLDER" in capsys.readouterr().err


def test_form_of_the_engine_is_the_one_that_is_imported() -> None:
    code = "import pumice.engine.cycle as cycle; print(cycle.__file__)"
    done = run_process([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(".py") == (engine_form() == "pure Python")
