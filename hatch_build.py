"""Build hook: with ``PUMICE_COMPILE=1`` a wheel contains the compiled engine, and is made for this platform and Python.

Without it the wheel is pure Python and fits everywhere. Editable installs are never compiled: sources in a checkout are
to be edited.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ["mypy[mypyc]>=2.4", "setuptools>=80", "numpy>=2.1"]
"""What the compilation takes, beside a C compiler; numpy for its types."""


class CompiledEngineHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's generic parameter is internal
    """Adds the libraries that tools/compile_engine.py makes."""

    def dependencies(self) -> list[str]:
        """The packages to install for the build."""
        return NEEDED if _is_asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of a wheel are collected."""
        if self.target_name != "wheel" or version == "editable" or not _is_asked_for():
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="pumice-engine-")
        folder = Path(self._scratch.name)
        command = [sys.executable, str(Path(self.root, "tools", "compile_engine.py")), str(folder)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(built.stderr.strip()[-4000:])
        build_data["force_include"].update(
            {str(path): path.relative_to(folder).as_posix() for path in folder.rglob("*.so")}
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the scratch folder."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()


def _is_asked_for() -> bool:
    return os.environ.get("PUMICE_COMPILE") == "1"
