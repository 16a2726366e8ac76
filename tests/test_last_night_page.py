"""docs/last-night.md: every command in it prints what is shown below it, and its tables name what there is."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from pumice.audit.certificate import RULES, audit
from pumice.audit.entitlement import MOST_NODES
from pumice.audit.shortfall import LASTS, NONE, REASONS
from pumice.cli.past.at_command import VIEWS
from tests.support.processes import run_process
from tests.support.shell_pages import FAILURES, ROOT, Shown, shown
from tools.example_log import FOLDER, write_log

PAGE = (ROOT / "docs" / "last-night.md").read_text(encoding="utf-8")


def type_command(one: Shown, folder: Path) -> None:
    command = one.command.replace("pumice ", f"{sys.executable} -m pumice ")
    done = run_process(
        ["bash", "-c", f"exec 2>&1; {command}"],
        cwd=folder,
        env={**os.environ, "TZ": "UTC", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=250,
    )
    fails = any(line.startswith(FAILURES) for line in one.output)
    assert bool(done.returncode) == fails, done.stdout
    printed = iter(done.stdout.splitlines())
    for line in one.output:  # in this order; the page may leave lines out, and the end of the last one
        assert any(each.rstrip() == line or (fails and each.startswith(line)) for each in printed), (
            f"{one.command}: the page shows {line!r}; it printed\n{done.stdout}"
        )


@pytest.mark.process
def test_last_night_page_commands_print_shown_output(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "examples" / "last-night")
    commands = shown(PAGE)
    assert len(commands) == 7
    for one in commands:
        type_command(one, tmp_path)


def test_the_example_is_what_the_scheduler_decides(tmp_path: Path) -> None:
    def bodies(folder: Path) -> list[str]:
        lines = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
        return [re.sub(r',?"(chain|machine|pumice|follows)":"[^"]*"', "", line) for line in lines]

    write_log(tmp_path)
    assert bodies(tmp_path) == bodies(FOLDER), "write it anew: python -m tools.example_log"
    assert audit(FOLDER).clean


def test_tables_name_the_views_rules_and_reasons() -> None:
    views = re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE)
    assert views == list(VIEWS)
    rules = re.findall(r"^\| (\w[\w ]+) \|", PAGE.partition("| rule |")[2], re.MULTILINE)
    assert tuple(rules) == RULES
    reasons = re.findall(r"\*([\w ]+)\*", PAGE.partition("The second table")[2].partition("WITHOUT REASON")[0])
    assert {*reasons, NONE} == set(REASONS)
    assert f"at most {MOST_NODES} queues" in PAGE and f"for {LASTS // 1_000_000} s while" in PAGE


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)", PAGE))
def test_links_of_last_night_page(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
