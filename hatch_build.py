"""Build hook: a wheel contains the compiled engine where it can be compiled, and is pure Python elsewhere.

``PUMICE_PURE=1`` asks for pure Python. ``PUMICE_COMPILE=1`` asks for the compiled engine, and fails where it cannot be
had; without it, a machine without a C compiler gets the pure wheel, which decides the same. A compiled wheel is made
for this platform and version of Python, a pure one fits everywhere (``py3-none-any``).

Editable installs are never compiled: sources in a checkout are to be edited.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # hatchling loads this file by its path

from tools import compile_engine, compile_shim  # noqa: E402


class CompiledEngineHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's generic parameter is internal
    """Adds the libraries that tools/compile_engine.py makes."""

    def dependencies(self) -> list[str]:
        """The packages to install for the build: none where nothing will be compiled."""
        return pinned_packages() if should_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of a wheel are collected."""
        if self.target_name != "wheel" or version == "editable" or not should_compile():
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="pumice-engine-")
        folder = Path(self._scratch.name)
        command = [sys.executable, str(ROOT / "tools" / "compile_engine.py"), str(folder)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            self._scratch.cleanup()
            reason = built.stderr.strip()[-4000:]
            if is_required():
                raise RuntimeError(reason)
            if built.returncode != compile_engine.NOT_AVAILABLE:
                self.app.display_warning(f"{reason}\nthe wheel is pure Python")
            return
        build_data["force_include"].update(
            {
                str(path): path.relative_to(folder).as_posix()
                for path in [*folder.rglob("*.so"), folder / compile_shim.PROGRAM]
                if path.exists()
            }
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the scratch folder."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()


def should_compile() -> bool:
    """Whether to try: not where pure Python is asked for or, unless compiling is required, there is no compiler."""
    if os.environ.get("PUMICE_PURE") == "1":
        return False
    return is_required() or compile_engine.missing_toolchain() is None


def is_required() -> bool:
    """Whether a wheel that cannot be compiled is an error."""
    return os.environ.get("PUMICE_COMPILE") == "1"


def pinned_packages() -> list[str]:
    """The packages of requirements/compile.txt in their pinned versions; build frontends cannot check hashes."""
    lines = (ROOT / "requirements" / "compile.txt").read_text().splitlines()
    return [line.removesuffix("\\").strip() for line in lines if line and line[0] not in "# "]
