"""Whether the engine of this installation is compiled (tools/compile_engine.py) or pure Python."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def engine_form() -> str:
    """``compiled engine`` or ``pure Python``; looks at files, so that asking loads no engine."""
    engine = Path(__file__).parent.parent / "engine"
    return "compiled engine" if any((engine / f"cycle{end}").exists() for end in EXTENSION_SUFFIXES) else "pure Python"
