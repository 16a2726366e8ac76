"""Our programs, called in this process: quick, and ended as the real ones end."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from pumice.cli import main
from pumice.cli.cluster.volcano_programs import load_program
from pumice.cli.entry_point import run_program


class Ended(NamedTuple):
    """How a program ended, and what it said."""

    status: int
    out: str
    err: str


class Caller:
    """Calls programs on one cluster."""

    def __init__(self, kubeconfig: Path, patch: pytest.MonkeyPatch) -> None:
        self.kubeconfig = kubeconfig
        self._patch = patch

    def __call__(self, line: str, *more: str) -> Ended:
        """A command line, without quotes; ``more`` are words that need some."""
        name, *words = line.split()
        self._patch.setenv("KUBECONFIG", str(self.kubeconfig))
        self._patch.setattr(sys, "argv", [name, *words, *more])
        self._patch.setattr(sys, "stdin", io.StringIO())
        out, err = io.StringIO(), io.StringIO()
        command: click.Command = main.cli if name == "pumice" else load_program(name)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            run_program(command, name)
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out.getvalue(), err.getvalue())

    def said(self, line: str, *more: str) -> str:
        """What a command says that succeeds without a complaint."""
        ended = self(line, *more)
        assert (ended.status, ended.err) == (0, ""), ended
        return ended.out
