"""docs/plan.md: every command in it runs and prints what is shown below it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_process
from tests.support.shell_pages import ROOT, shown

PAGE = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")


@pytest.mark.process
def test_plan_page_commands_print_shown_output(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = shown(PAGE)
    assert [one.command.split()[1] for one in commands] == ["plan", "plan"]
    for one, status in zip(commands, (1, 2), strict=True):
        command = [sys.executable, "-m", *one.command.split()]
        done = run_process(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=250)
        assert (done.returncode, done.stderr) == (status, "")
        printed = iter([line.rstrip() for line in done.stdout.splitlines()])
        for line in one.output:
            assert line in printed, f"{one.command}: the page shows {line!r}; it printed\n{done.stdout}"


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_links_of_plan_page(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
