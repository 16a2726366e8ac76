"""The table of attacks names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "tests" / "README.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", TABLE)))


def test_the_table_names_tests() -> None:
    assert len([name for _, name in NAMED if name]) > 30


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_test_of_the_table_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
