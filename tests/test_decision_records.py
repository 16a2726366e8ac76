"""docs/decisions: records have one form, the index lists them all, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).parent.parent / "docs" / "decisions"
RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
PAGES = sorted(DECISIONS.glob("*.md"))


def test_records_are_numbered_and_listed() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\d+)\]\(([\w-]+\.md)\)", index, re.MULTILINE) == [
        (str(number), record.name) for number, record in enumerate(RECORDS, 1)
    ]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_the_common_form(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Status", "Context", "Decision", "Consequences"]
    assert len(text.splitlines()) <= 50, "half a page: what is longer belongs into the documentation"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page: Path) -> None:
    for file, place in re.findall(r"\]\(([^)#:]*)#?([\w-]*)\)", page.read_text(encoding="utf-8")):
        target = DECISIONS / file
        assert target.exists(), file
        if place:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert place in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, place
