"""``pumice agent``: where it starts, and where it does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kubebase.kubeconfig_text import kubeconfig_text
from tests.cli.command import pumice_command


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    """Start an agent in a folder that it cannot use, so that it ends."""
    (folder / "file").touch()
    return pumice_command("agent", "--kubeconfig", folder / "kubeconfig", "--data", folder / "file" / "agent")


def test_a_server_without_credentials_gives_no_commands(tmp_path: Path) -> None:
    """Whoever reaches it, another user or a web page, could run commands as the user of the agent."""
    (tmp_path / "kubeconfig").write_text(kubeconfig_text("pumice", "http://127.0.0.1:6440"))
    ended = start(tmp_path)
    assert ended.returncode == 2
    assert "http://127.0.0.1:6440 lets anybody in, so every user of its machine" in ended.stderr
    (tmp_path / "kubeconfig").write_text(kubeconfig_text("pumice", "http://127.0.0.1:6440", token="secret"))
    ended = start(tmp_path)
    assert "lets anybody in" not in ended.stderr
    assert "Not a directory" in ended.stderr
