"""A credential plugin for tests: an executable that prints what a test wants it to, and keeps a log of its runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

SOURCE = """#!{python}
import json, os, sys, time
from pathlib import Path

folder = Path({folder!r})
answer = json.loads((folder / "answer.json").read_text())
with (folder / "runs").open("a") as runs:
    told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    record = {{"args": sys.argv[1:], "info": told, "mine": os.environ.get("STUB_VARIABLE"),
               "stdin": sys.stdin.read()}}
    runs.write(json.dumps(record) + "\\n")
while answer["gate"] and not (folder / "gate").exists():
    time.sleep(0.01)
print(answer["stderr"], file=sys.stderr, end="")
print(answer["stdout"])
sys.exit(answer["exit"])
"""


class ExecStub:
    """The executable in its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.command = folder / "stub-plugin"
        self.command.write_text(SOURCE.format(python=sys.executable, folder=str(folder)))
        self.command.chmod(0o755)

    def answers(
        self,
        *,
        version: str = V1,
        stdout: str | None = None,
        code: int = 0,
        stderr: str = "",
        gate: bool = False,
        **status: Any,
    ) -> None:
        """Print an ExecCredential with this status from now on, or something else."""
        credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        said = json.dumps(credential) if stdout is None else stdout
        answer = {"stdout": said, "stderr": stderr, "exit": code, "gate": gate}
        written = self.folder / "answer.new"
        written.write_text(json.dumps(answer))
        written.replace(self.folder / "answer.json")

    def open_gate(self) -> None:
        """Let a run go on that waits."""
        (self.folder / "gate").touch()

    @property
    def runs(self) -> list[dict[str, Any]]:
        """How it was called, once per run."""
        try:
            return [json.loads(line) for line in (self.folder / "runs").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def user(self, *, version: str = V1, **more: Any) -> dict[str, Any]:
        """The user entry of a kubeconfig that names it."""
        return {"exec": {"apiVersion": version, "command": str(self.command), "interactiveMode": "Never", **more}}
