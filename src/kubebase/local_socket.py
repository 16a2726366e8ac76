"""The Unix socket of a server for programs of the same user on the same machine: no TLS, which takes longer than a job.

The server writes into its kubeconfig where the socket is, in which boot of which machine, and its inode. So a copy of
the kubeconfig on another machine, or one of an earlier run, leads to the port of the server and to no other socket.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def describe_socket(path: Path) -> dict[str, Any]:
    """A bound socket, as a kubeconfig has it."""
    return {"path": str(path), "boot": _boot(), "inode": path.lstat().st_ino}


def usable_socket(described: Mapping[str, Any]) -> str:
    """The path of the socket if it is here, the one that was described, and of this user; empty if not."""
    path = described.get("path")
    if not isinstance(path, str):
        return ""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return ""
    ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() and found.st_ino == described.get("inode")
    return path if ours and described.get("boot") == _boot() else ""


def _boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
