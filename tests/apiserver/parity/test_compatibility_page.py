"""docs/compatibility.md tells of every difference that the scripts allow, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.exchanges import read

EXCHANGES = Path(__file__).parent / "exchanges"
PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def reasons() -> set[str]:
    """Why our answers differ, as the scripts say it."""
    found = set()
    for path in EXCHANGES.glob("*.yaml"):
        for script in read(path)["scripts"]:
            for step in script["steps"]:
                if "ours" in step:
                    assert step["ours"].keys() <= {"why", "answer", "free"}, (path.name, script["name"], step["ours"])
                    found.add(step["ours"]["why"])
    return found


def test_every_difference_is_on_the_page_and_no_other() -> None:
    told = {" ".join(words.split()) for words in re.findall(r"(?ms)^- \*\*(.*?)\*\*", PAGE.read_text())}
    assert reasons() - told == set(), "not on the page"
    assert told - reasons() == set(), "no script has it any more"
