"""docs/ui.md shows every picture that ``tools.screenshots`` makes, and names pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TEXT = (DOCS / "ui.md").read_text(encoding="utf-8")
MADE = re.findall(r'^ +\("([\w-]+)", f?"/', (ROOT / "tools/screenshots.py").read_text(), re.MULTILINE)
WEB = ROOT / "src/pumice/ui/web"


def test_every_picture_that_is_made_exists_and_is_shown() -> None:
    assert len(MADE) == 10
    assert sorted(path.stem for path in (DOCS / "pictures/ui").glob("*.png")) == sorted(MADE)
    for name in MADE:
        assert f"](pictures/ui/{name}.png)" in TEXT


def test_pictures_are_small_enough_for_a_checkout() -> None:
    assert sum(path.stat().st_size for path in (DOCS / "pictures/ui").glob("*.png")) < 1_500_000


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)", TEXT))
def test_links(link: str) -> None:
    assert (DOCS / link).exists()


def test_pages_are_those_of_the_header() -> None:
    titles = re.findall(r'\["/\w*", "(\w+)", "\w+"\]', (WEB / "app.js").read_text())
    assert titles == ["Tree", "Jobs", "Nodes", "Decisions", "Then"]
    for title in titles:
        assert f"| {title} | `/" in TEXT


def test_the_words_of_the_bar_are_explained_on_the_page_too() -> None:
    words = (WEB / "lib/words.js").read_text().lower()
    for word in re.findall(r"\| \*\*([\w ]+)\*\*:", TEXT):
        assert f'title: "{word}"' in words
