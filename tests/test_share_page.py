"""docs/share-a-gpu-server.md: its commands are typed by the users who would type them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pumice.agent.shim.volume_mounts import may_mount
from tests.support.people import Account, SharedMachine, accounts, need_root, open_folder, shell_as
from tests.support.processes import run_process
from tests.support.shell_pages import ROOT, Shown, Terminal, need_kubectl, shown

PAGE = (ROOT / "docs" / "share-a-gpu-server.md").read_text(encoding="utf-8")
ADMINISTRATORS_SECTION = "Three queues"


class UserTerminal(Terminal):
    """Where one user types."""

    def __init__(self, account: Account, machine: SharedMachine, folder: Path) -> None:
        super().__init__(folder)
        self.home = account.home
        self._account = account
        kept = {"PATH": self._environment["PATH"], "PYTHONPATH": str(ROOT / "src")}
        self._environment = {
            **kept,
            "HOME": str(account.home),
            "USER": account.name,
            "PUMICE_SOCKET": str(machine.socket),
        }

    def type(self, one: Shown) -> None:
        def named(text: str) -> str:
            return text.replace("$USER", self._account.name)

        super().type(Shown(named(one.command), [named(line) for line in one.output]))

    def run(self, command: str):  # type: ignore[no-untyped-def]
        line = shell_as(self._account, command, self._environment)
        return run_process(line, capture_output=True, text=True, timeout=120)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_share_page_commands_print_shown_output() -> None:
    need_kubectl()
    need_root()
    if not may_mount():
        pytest.skip("this process may not give a child mounts of its own")
    suffix = f"{os.getpid() % 100_000}"
    with open_folder() as folder, accounts(folder, f"dora{suffix}", f"emil{suffix}", group=f"heads{suffix}") as people:
        dora, emil = people
        machine = SharedMachine(folder, f"heads{suffix}", "--no-ui")
        try:
            typed = 0
            for name in ("dora", "emil"):
                (folder / f"{name}-terminal").mkdir()
            user = UserTerminal(dora, machine, folder / "dora-terminal")
            head = UserTerminal(emil, machine, folder / "emil-terminal")
            assert head.run("pumice login").returncode == 0
            for section in re.split(r"^## ", PAGE, flags=re.MULTILINE):
                terminal = head if section.startswith(ADMINISTRATORS_SECTION) else user
                for one in shown(section):
                    terminal.type(one)
                    typed += 1
            assert typed > 8
        finally:
            machine.end()
