"""tools/README.md lists every tool, with its command and the test that notices when nobody ran it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
ROWS = {
    name: cells.split(" | ")
    for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", (TOOLS / "README.md").read_text(), re.MULTILINE)
}


def test_every_tool_is_listed_in_order() -> None:
    assert [*ROWS] == sorted(path.stem for path in TOOLS.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("tool", ROWS)
def test_the_command_is_that_of_the_tool(tool: str) -> None:
    makes, _, _ = ROWS[tool]
    commands = re.findall(r"`([^`]*python [^`]*)`", makes)
    assert len(commands) == 1
    docstring = ast.get_docstring(ast.parse((TOOLS / f"{tool}.py").read_text())) or ""
    assert any(line.startswith(commands[0]) for line in docstring.splitlines())


@pytest.mark.parametrize("tool", ROWS)
def test_check_linked_in_tools_readme_mentions_tool(tool: str) -> None:
    _, _, noticed_by = ROWS[tool]
    linked = [TOOLS / link for link in re.findall(r"\]\(([^)]+)\)", noticed_by)]
    assert linked
    assert [path for path in linked if not path.is_file()] == []
    assert any(tool in path.read_text() for path in linked)
