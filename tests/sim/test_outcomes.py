"""Outcomes that a user would state, one scenario file each: who runs what once a small cluster has come to rest.

The files stand in ``tests/cases/outcomes``. The comment at the top of each says why its outcome is the fair one.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pumice.cli.main import cli

CASES = sorted((Path(__file__).parents[1] / "cases" / "outcomes").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_outcome(path: Path) -> None:
    result = CliRunner().invoke(cli, ["check", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "1 passed, 0 failed"
    assert "expects nothing" not in result.output
