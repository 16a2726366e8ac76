"""docs/jobs.md: every command on it is typed, its manifest is admitted, and its table has the arguments of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pumice.admission import Request, admit
from pumice.admission.jobs.plugin_arguments import ARGUMENTS, NEEDED_PLUGINS, plugin_flags
from pumice.admission.request import CRON_JOBS
from tests.support.admitted import world
from tests.support.shell_pages import ROOT, Terminal, need_kubectl, shown

PAGE = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_kubectl()
    found = Terminal(tmp_path)
    yield found
    found.stop()


def test_jobs_page_commands_print_shown_output(terminal: Terminal) -> None:
    commands = shown(PAGE)
    assert len(commands) > 10
    for one in commands:
        terminal.type(one)


def test_table_has_the_arguments_of_the_code() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert [name.strip(" `") for name, _, _, _ in rows] == list(ARGUMENTS)
    for name, (_, needs, _, arguments) in zip(ARGUMENTS, rows, strict=True):
        assert tuple(re.findall(r"`(\w+)`", needs)) == NEEDED_PLUGINS.get(name, ())
        listed = dict(argument.partition("=")[::2] for argument in re.findall(r"`--([^`]+)`", arguments))
        assert listed == {
            flag: str(each.default).lower() if isinstance(each.default, bool) else str(each.default)
            for flag, each in plugin_flags(name).items()
        }


def test_manifest_on_the_page_is_admitted() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    verdict = admit(Request("CREATE", CRON_JOBS, yaml.safe_load(text)), world())
    assert verdict.allowed, verdict.message
