"""Helm as a function, with a home of its own for what it remembers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.processes import run_process
from tools import helm_binary


def binary() -> Path:
    """Helm, built once where Go is; a skip where neither is, in CI a failure."""
    there = helm_binary.found()
    if there is None and not shutil.which("go"):
        assert os.environ.get("CI") != "true", f"{helm_binary.ABSENT}; CI has to have one of them"
        pytest.skip(helm_binary.ABSENT)
    return there or helm_binary.build()


class Helm:
    """Helm, for one namespace of a cluster."""

    def __init__(self, home: Path, kubeconfig: Path, namespace: str) -> None:
        self._command = [str(binary()), "--namespace", namespace, "--kubeconfig", str(kubeconfig)]
        homes = {f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **homes}

    def __call__(self, *arguments: str) -> str:
        """What a command that succeeds says."""
        status, said, wrong = self.tried(*arguments)
        assert status == 0, f"helm {' '.join(arguments)} ended with {status}:\n{said}{wrong}"
        return said

    def tried(self, *arguments: str) -> tuple[int, str, str]:
        """How a command ended, and what it said on either stream."""
        done = run_process(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self._environment,
        )
        return done.returncode, done.stdout, done.stderr
