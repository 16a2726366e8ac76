"""docs/compatibility.md tells of every difference that the scripts allow, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kubesim.parity.refusals import ALLOWED
from tests.support.case_files import read_yaml
from tests.support.kubectl_scripts import load

EXCHANGES = Path(__file__).parent / "exchanges"
COMMANDS = Path(__file__).parent / "kubectl"
STEP = {"kubectl", "given", "with", "until", "without", "sorted", "ours"}
PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def reasons() -> set[str]:
    """Why our answers differ, as the scripts say it."""
    found = set(ALLOWED)
    for path in EXCHANGES.glob("*.yaml"):
        for script in read_yaml(path)["scripts"]:
            for step in script["steps"]:
                if "ours" in step:
                    assert step["ours"].keys() <= {"why", "answer", "free"}, (path.name, script["name"], step["ours"])
                    found.add(step["ours"]["why"])
    for path in COMMANDS.glob("*.yaml"):
        for commands in load(path):
            for step in commands.steps:
                assert step.keys() <= STEP, (path.name, commands.name, step)
                if "ours" in step:
                    assert step["ours"].keys() <= {"why", "there", "here", "cut"}, (path.name, commands.name, step)
                    found.add(step["ours"]["why"])
    return found


def test_every_difference_is_on_the_page_and_no_other() -> None:
    told = {" ".join(words.split()) for words in re.findall(r"(?ms)^- \*\*(.*?)\*\*", PAGE.read_text())}
    assert reasons() - told == set(), "not on the page"
    assert told - reasons() == set(), "no script has it any more"
