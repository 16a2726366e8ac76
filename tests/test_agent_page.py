"""docs/agent.md: every command on it is typed, with real processes on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import end_processes_in
from tests.support.shell_pages import ROOT, SECONDS, Terminal, need_kubectl, shown

PAGE = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
READY = "kubectl get nodes -l pumice.dev/runtime=process -o name"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_kubectl()
    found = Terminal(tmp_path)
    try:
        yield found
    finally:
        found.stop()
        end_processes_in(tmp_path / ".local" / "share" / "pumice" / "agent")


@pytest.mark.long
def test_agent_page_commands_print_shown_output(terminal: Terminal) -> None:
    commands = shown(PAGE)
    assert len(commands) > 8
    for one in commands:
        terminal.type(one)
        if one.command.startswith("export "):
            until = time.monotonic() + SECONDS
            while not terminal.run(READY).stdout:
                assert time.monotonic() < until
