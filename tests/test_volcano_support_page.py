"""docs/volcano-support.md is what the table in the code says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = ROOT / "docs" / "volcano-support.md"
LINKS = [
    *((PAGE, link) for link in re.findall(r"\]\(([^):]+)\)", PAGE.read_text(encoding="utf-8"))),
    *((ROOT / "README.md", link) for link in re.findall(r"\]\((docs/volcano-support\.md[^)]*)\)", README)),
]


def test_the_page_is_up_to_date():
    """If not: python tools/volcano_support_page.py > docs/volcano-support.md."""
    done = run_process(
        [sys.executable, "tools/volcano_support_page.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert PAGE.read_text(encoding="utf-8") == done.stdout


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_to_a_page_and_its_heading(page: Path, link: str) -> None:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
