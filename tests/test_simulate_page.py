"""docs/simulate.md: every command in it runs and prints what is shown below it, and its tables name what there is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pumice.simulate.formats.tables import CSV_OPTIONAL, CSV_REQUIRED
from pumice.simulate.policies import BUILT_IN_POLICIES
from tests.support.processes import run_process
from tests.support.shell_pages import FAILURES, ROOT, Shown, shown

PAGE = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples, in which commands may write."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def type_command(one: Shown, folder: Path) -> None:
    command = one.command.replace("pumice ", f"{sys.executable} -m pumice ", 1)
    done = run_process(
        ["bash", "-c", f"exec 2>&1; {command}"], cwd=folder, capture_output=True, text=True, check=False, timeout=250
    )
    fails = any(line.startswith(FAILURES) for line in one.output)
    assert bool(done.returncode) == fails, done.stdout
    printed = iter([line.rstrip() for line in done.stdout.splitlines()])
    for line in one.output:  # in this order; the page may leave lines out
        assert line in printed, f"{one.command}: the page shows {line!r}; it printed\n{done.stdout}"


@pytest.mark.process
def test_simulate_page_commands_print_shown_output(folder: Path) -> None:
    commands = shown(PAGE)
    assert len(commands) == 3
    for one in commands:
        type_command(one, folder)


def test_tables_name_the_columns_and_policies() -> None:
    named = re.findall(r"^\| `([^`]+)`", PAGE, re.MULTILINE)
    assert {*CSV_REQUIRED, *CSV_OPTIONAL, *BUILT_IN_POLICIES} == set(named) - {"NAME=FILE", "NAME=FILE,FILE"} - {
        "--policy"
    }


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_links_of_simulate_page(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
