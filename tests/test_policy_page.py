"""docs/policies.md: every command in it runs, and prints what is shown below it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_process
from tools.outcome_table import rows

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```\n\$ (pumice .*)\n([^`]*)^```$", TEXT, re.MULTILINE)
TABLE = re.findall(r"^\|.*\|$", TEXT.partition("## Worked outcomes")[2], re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(pumice (?:run|check|entitle) [^`]*)`", TEXT)))
FILES = sorted(set(re.findall(r"examples/[\w-]+\.yaml", TEXT)))


def pumice(command: str) -> str:
    done = run_process(
        [sys.executable, "-m", "pumice", *shlex.split(command)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[f"{i}-{command}" for i, (command, _) in enumerate(SHOWN)])
def test_policy_page_command_prints_shown_output(command: str, shown: str) -> None:
    printed = iter(pumice(command).splitlines())
    lines = shown.splitlines()
    assert lines
    for line in lines:  # in this order; the page may leave lines out
        assert line in printed, line


@pytest.mark.parametrize("command", NAMED)
def test_a_command_in_the_text_runs(command: str) -> None:
    assert pumice(command)


def test_all_policy_page_examples_pass_check() -> None:
    assert len(SHOWN) >= 10 and len(FILES) >= 12
    assert f"{len(FILES)} passed, 0 failed" in pumice(f"pumice check {' '.join(FILES)}")


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / "docs" / link).exists()


def test_the_table_of_outcomes_is_what_the_scenarios_give() -> None:
    assert list(rows()) == TABLE
