"""Processes of this machine: who is whose child, which process is still the same, and how all of a pod are ended.

A pid alone names no process, because the kernel gives it to another one later. Pid, start time and boot together do.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

POD_VARIABLE = "PUMICE_POD_UID"
"""The environment variable that names the pod of a process; by it leftovers of a lost shim are found."""
CONTAINER_VARIABLE = "PUMICE_CONTAINER"
KILL_SECONDS = 10.0
"""How long processes are killed again and again; what is left then waits in the kernel and ends when that lets go."""
PAUSE_SECONDS = 0.005


@cache
def boot_id() -> str:
    """The identity of this start of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_ticks(pid: int) -> int:
    """When a process was started, in ticks since the boot; 0 if there is none, or only its exit code is left."""
    fields = _stat_fields(pid)
    return 0 if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def is_same_process(pid: int, ticks: int, boot: str) -> bool:
    """Whether the process with this pid is the one that was written down."""
    return bool(ticks) and boot == boot_id() and start_ticks(pid) == ticks


def descendants(root: int) -> set[int]:
    """All processes below one, whatever sessions and groups they have put themselves into."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        fields = _stat_fields(pid)
        if fields is not None and fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    ahead = [root]
    while ahead:
        new = [pid for pid in children.get(ahead.pop(), ()) if pid not in found]
        found.update(new)
        ahead += new
    return found


def has_children() -> bool:
    """Whether any process is below this one. In a subreaper, what loses its parent becomes a child of its own."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def marked_processes(uid: str, container: str = "", user: int | None = None) -> set[int]:
    """All processes whose environment names a pod, or one of its containers; of one user, if one is given."""
    markers = {f"{POD_VARIABLE}={uid}".encode()}
    markers |= {f"{CONTAINER_VARIABLE}={container}".encode()} if container else set()
    found = set()
    for pid in _all_pids():
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if user is not None and os.stat(f"/proc/{pid}").st_uid != user:
                continue
            if markers <= set(file.read().split(b"\0")) and start_ticks(pid):
                found.add(pid)
    return found


def cgroup_processes(folders: Iterable[str]) -> set[int]:
    """All processes in cgroups."""
    found: set[int] = set()
    for folder in folders:
        with suppress(OSError), open(f"{folder}/cgroup.procs") as file:
            found.update(pid for pid in map(int, file.read().split()) if start_ticks(pid))
    return found


def kill_all(find: Callable[[], set[int]], reap: Callable[[], None] = lambda: None) -> bool:
    """Kill the processes that ``find`` finds, until it finds none. Whether that was achieved.

    They are stopped first: what is stopped cannot fork while the others are killed.
    """
    until = time.monotonic() + KILL_SECONDS
    while found := find():
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
        reap()
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of ``/proc/PID/stat`` from the state on; the name before them may contain anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
