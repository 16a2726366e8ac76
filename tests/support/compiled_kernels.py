"""The loops of the engine that are there in C, compiled from the sources of the checkout for one test module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from tools import compile_kernel


def load_kernel(source: Path, folder: Path) -> ModuleType:
    """Compile a module of ``compile_kernel.KERNELS`` into a folder and load it; nothing uses it yet."""
    path = folder / compile_kernel.compile_kernel(source, folder)
    spec = importlib.util.spec_from_file_location(source.with_suffix("").as_posix().replace("/", "."), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
