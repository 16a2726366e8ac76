"""docs/scenarios.md: the scenario on the page does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pumice.cli.main import cli

TEXT = (Path(__file__).parent.parent / "docs" / "scenarios.md").read_text(encoding="utf-8")
(SCENARIO,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
((COMMAND, SHOWN),) = re.findall(r"^```\n\$ pumice (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_scenarios_page_command_prints_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree.yaml").write_text(SCENARIO, encoding="utf-8")
    done = CliRunner().invoke(cli, COMMAND.split(), catch_exceptions=False)
    assert (done.exit_code, done.output) == (1, SHOWN)
