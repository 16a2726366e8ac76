"""Every command of the README runs, and the figures it shows are the ones the demo prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^(pumice .*?)(?: +#.*)?$", TEXT, re.MULTILINE)


def pumice(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_process(
        [sys.executable, "-m", "pumice", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_readme_contains_commands() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str) -> None:
    done = pumice(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_picture_is_what_the_demo_prints() -> None:
    picture = re.findall(r"^(?:root|\|).*█.*$", TEXT, re.MULTILINE)
    assert len(picture) == 13  # the root and nine queues, of which one has nothing; then the root and three
    shown = pumice("demo").stdout.splitlines()
    assert [line for line in picture if line not in shown] == []


def test_readme_eviction_count_matches_demo() -> None:
    number = re.search(r"evicted (\d+) tasks of \*ads\*", TEXT)
    assert number is not None
    assert f"reclaim: {number[1]} tasks of models and serving make way for science" in pumice("demo").stdout


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / link).exists()


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)`|^make ([\w-]+)", TEXT, re.MULTILINE):
        name = next(filter(None, target))
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), f"make {name}"
