"""The Unix socket of a server for programs of the same user on the same machine: no TLS, which takes longer than a job.

The server writes into its kubeconfig where the socket is, in which boot of which machine, and its inode. So a copy of
the kubeconfig on another machine, or one of an earlier run, leads to the port of the server and to no other socket.
Whoever connects to a Unix socket checks who listens there before it sends anything.
"""

from __future__ import annotations

import _socket  # this and what is imported for types only would take longer to load than a command needs to run
import os
import stat
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_PEER = getattr(_socket, "SO_PEERCRED", None)
"""Linux alone says who is at the other end."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


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
        with open(BOOT_ID) as file:
            return file.read().strip()
    except OSError:
        return ""


def peer_user(connected: Any) -> int:
    """The user at the other end of a Unix socket, as it was when it connected or listened; -1: no Unix socket."""
    if connected is None or connected.family != _socket.AF_UNIX or _PEER is None:
        return -1
    return int.from_bytes(connected.getsockopt(_socket.SOL_SOCKET, _PEER, 12)[4:8], byteorder)  # of pid, uid and gid


def check_listener(connected: Any) -> None:
    """Raise ``PermissionError`` if another user than root or this one listens at the other end of a Unix socket.

    Requests carry tokens, environments and commands.
    """
    if _PEER is not None and peer_user(connected) not in {0, os.geteuid()}:
        raise PermissionError("another user listens there")


async def connect_local(path: str, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams to whoever listens at a path, which must be root or this user."""
    import asyncio  # noqa: PLC0415 - of some size, and a command that connects needs none of it

    reader, writer = await asyncio.open_unix_connection(path, limit=limit)
    try:
        check_listener(writer.get_extra_info("socket"))
    except PermissionError:
        writer.transport.abort()
        raise
    return reader, writer
