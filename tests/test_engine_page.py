"""docs/engine.md: its program runs as it stands and prints what the page shows."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import pumice.engine

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_program_prints_what_the_page_shows() -> None:
    assert len(BLOCKS) == TEXT.count("```python") == 3
    names: dict[str, object] = {}
    for code, shown in BLOCKS:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs/engine.md", "exec"), names)
        assert printed.getvalue() == shown


def test_the_first_example_is_short() -> None:
    assert len([line for line in BLOCKS[0][0].splitlines() if line.strip()]) <= 18


def test_the_page_uses_public_names_only() -> None:
    imports = re.findall(r"^from (pumice\S*) import (.*)$", TEXT, re.MULTILINE)
    assert {module for module, _ in imports} == {"pumice.engine"}
    assert {name for _, names in imports for name in names.split(", ")} <= set(pumice.engine.__all__)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / "docs" / link).exists()


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_the_page_is_linked(page: str) -> None:
    assert re.search(r"\]\((docs/)?engine\.md\)", (ROOT / page).read_text(encoding="utf-8"))
