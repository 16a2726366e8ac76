"""Cgroups of pods, version 1 or 2, where the agent may write them.

Each pod has a folder below the agent's own, each container one below that. Where cgroups cannot be written, containers
are ended by their process groups and each process has a limit of its own (``setrlimit``).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pumice.agent.shim.cgroup_removal import remove_cgroups
from pumice.agent.shim.process_table import cgroup_processes, kill_all

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
CONTROLLERS = ("memory", "cpu", "pids")
PERIOD = 100_000  # microseconds
PREFIX, POD_PREFIX = "pumice.", "pod-"
"""Of the folder of an agent, and of those of its pods. Agents of former versions, which lock nothing, have others."""
MOST_PROCESSES = 4096
"""Processes and threads of a pod: many for any work, few for a fork bomb."""
JOINED_FILES = {1: "tasks", 2: "cgroup.procs"}
"""Where a process with one thread writes itself. In version 1 the thread alone is moved, for which the kernel does not
stop all forks of the machine first: that takes 8 ms instead of 0.4.
"""
LEAF, DELEGATED = "pumice", "user.delegate"
"""The cgroup for our own processes in one that is delegated, and the mark of systemd (251 and newer) on that one."""
ATTEMPTS = 5
LEAST_SHARES, MOST_SHARES = 2, 262_144


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What a container may use: bytes of memory, thousandths of a cpu; 0: as much as there is."""

    memory: int = 0
    cpu: int = 0
    cpu_request: int = 0


@dataclass(frozen=True, slots=True)
class PodCgroups:
    """The cgroups of one pod."""

    folders: list[str] = field(default_factory=list)
    """Those of containers first, so that they can be removed in this order."""
    joined: dict[str, list[str]] = field(default_factory=dict)
    """By container: the files into which its process writes itself."""
    oom_counters: dict[str, str] = field(default_factory=dict)


class Cgroups:
    """The cgroups of an agent: a folder in each hierarchy, with the files of this version."""

    def __init__(self, version: int, folders: Mapping[str, Path]) -> None:
        self.version = version
        self._folders = folders
        self._held: list[int] = []

    def __str__(self) -> str:
        return f"cgroups (version {self.version}: {', '.join(self._folders)})"

    def create(self, uid: str, containers: Mapping[str, ContainerLimits]) -> PodCgroups:
        """Make the cgroups of a pod and write the limits of its containers."""
        made = PodCgroups()
        pods = []
        for folder in dict.fromkeys(self._folders.values()):
            pod = folder / f"{POD_PREFIX}{uid}"
            pod.mkdir(exist_ok=True)
            if self.version == 2:
                _write(pod / "cgroup.subtree_control", "+memory +cpu +pids")
            pods.append(str(pod))
            for name in containers:
                (pod / name).mkdir(exist_ok=True)
                made.folders.append(str(pod / name))
                made.joined.setdefault(name, []).append(str(pod / name / JOINED_FILES[self.version]))
        made.folders.extend(pods)
        _write(self._folders["pids"] / f"{POD_PREFIX}{uid}" / "pids.max", str(MOST_PROCESSES))
        for name, limits in containers.items():
            self._limit(Path(f"{POD_PREFIX}{uid}") / name, limits)
            counter = "memory.events" if self.version == 2 else "memory.oom_control"
            made.oom_counters[name] = str(self._folders["memory"] / f"{POD_PREFIX}{uid}" / name / counter)
        return made

    def _limit(self, place: Path, limits: ContainerLimits) -> None:
        memory, cpu = self._folders["memory"] / place, self._folders["cpu"] / place
        shares = min(MOST_SHARES, max(LEAST_SHARES, limits.cpu_request * 1024 // 1000))
        quota = limits.cpu * PERIOD // 1000
        if self.version == 2:
            _write(memory / "memory.max", str(limits.memory or "max"))
            _write(memory / "memory.oom.group", "1")
            with suppress(OSError):  # a kernel without swap accounting
                _write(memory / "memory.swap.max", "0" if limits.memory else "max")
            _write(cpu / "cpu.max", f"{quota or 'max'} {PERIOD}")
            _write(cpu / "cpu.weight", str(1 + (shares - 2) * 9999 // 262_142))
            return
        if limits.memory:
            _write(memory / "memory.limit_in_bytes", str(limits.memory))
            with suppress(OSError):
                _write(memory / "memory.memsw.limit_in_bytes", str(limits.memory))
        _write(cpu / "cpu.shares", str(shares))
        if quota:
            _write(cpu / "cpu.cfs_period_us", str(PERIOD))
            _write(cpu / "cpu.cfs_quota_us", str(quota))

    def sweep(self, kept: Collection[str]) -> None:
        """End pods that no folder knows, and remove their cgroups.

        An agent was killed before it wrote their plans, or its folder was removed while they ran.
        """
        for folder in dict.fromkeys(self._folders.values()):
            for pod, groups in _pods_in(folder):
                if pod not in kept:
                    kill_all(partial(cgroup_processes, groups))
                    remove_cgroups(groups)

    def hold(self) -> bool:
        """Keep other agents from removing these folders; False if one has just done so. Ends with the process."""
        for folder in dict.fromkeys(self._folders.values()):
            if (held := _lock(folder)) < 0:
                return False
            self._held.append(held)
        return True

    def remove_abandoned(self) -> None:
        """Remove what agents have left that are no more (killed, their folders gone), except pods that still run."""
        for own in dict.fromkeys(self._folders.values()):
            for folder in own.parent.glob(f"{PREFIX}*"):
                if folder != own and (held := _lock(folder)) >= 0:
                    for _, groups in _pods_in(folder):
                        if not cgroup_processes(groups):
                            remove_cgroups(groups)
                    with suppress(OSError):  # pods that run
                        folder.rmdir()
                    os.close(held)

    def remove(self) -> None:
        """Remove the agent's own folders, if no pod is left in them."""
        for folder in dict.fromkeys(self._folders.values()):
            with suppress(OSError):
                folder.rmdir()
        while self._held:
            os.close(self._held.pop())


def _pods_in(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The pods of an agent that have cgroups: uid, and the folders in the order in which they can be removed."""
    for pod in folder.glob(f"{POD_PREFIX}*"):
        with suppress(OSError):  # a shim is removing it
            yield pod.name.removeprefix(POD_PREFIX), [*(str(each) for each in pod.iterdir() if each.is_dir()), str(pod)]


def _lock(folder: Path) -> int:
    """A descriptor that locks a folder; -1 if another process has it, or nobody may."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(held).st_nlink and folder.stat().st_ino == os.fstat(held).st_ino:  # not removed meanwhile
            return held
    os.close(held)
    return -1


def find_cgroups(name: str, mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
    """Cgroups for an agent of this name; None if it may not write any that limit memory, cpu and processes."""
    try:
        if (mount / "cgroup.controllers").exists():
            return _unified(name, mount, own)
        return _by_controller(name, mount, own)
    except OSError:
        return None


def _unified(name: str, mount: Path, own: Path) -> Cgroups | None:
    """Version 2: below the agent's cgroup where it is delegated, else below the top."""
    here = mount / _own_paths(own).get("", "").lstrip("/")
    for parent in dict.fromkeys((here.parent if here.name == LEAF else here, mount)):
        folder = parent / f"{PREFIX}{name}"
        try:
            folder.mkdir(exist_ok=True)
            enabled = set((parent / "cgroup.subtree_control").read_text().split())
            if not enabled >= set(CONTROLLERS):  # refused in a cgroup that has processes of its own
                if _is_delegated(parent):
                    _leave_to_pods(parent)
                _write(parent / "cgroup.subtree_control", "+memory +cpu +pids")
            _write(folder / "cgroup.subtree_control", "+memory +cpu +pids")
        except OSError:
            with suppress(OSError):
                folder.rmdir()
        else:
            return Cgroups(2, dict.fromkeys(CONTROLLERS, folder))
    return None


def _is_delegated(folder: Path) -> bool:
    """Whether the systemd of an ordinary user has left a cgroup to what runs in it (``Delegate=yes``).

    Root uses cgroups below the top: a service of root could not be started again in a cgroup that has others below it.
    """
    try:
        return os.geteuid() != 0 and os.getxattr(folder, DELEGATED) == b"1"
    except OSError:
        return False


def _leave_to_pods(folder: Path) -> None:
    """Move everything that runs in a cgroup into one below it, because one with processes limits none below it."""
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    for _ in range(ATTEMPTS):  # the processes may start others meanwhile
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                _write(leaf / "cgroup.procs", pid)


def _by_controller(name: str, mount: Path, own: Path) -> Cgroups | None:
    """Version 1: below the agent's cgroup in each hierarchy, so that limits of the agent's own hold for pods."""
    paths = _own_paths(own)
    folders = {}
    for controller in CONTROLLERS:
        hierarchy = mount / controller
        parent = hierarchy / paths.get(controller, "").lstrip("/")
        folder = (parent if parent.is_dir() else hierarchy) / f"{PREFIX}{name}"
        folder.mkdir(exist_ok=True)
        if not os.access(folder / "cgroup.procs", os.W_OK):
            return None
        folders[controller] = folder
    return Cgroups(1, folders)


def _own_paths(own: Path) -> dict[str, str]:
    """The path of this process by controller; by the empty name in the hierarchy of version 2."""
    found = {}
    for line in own.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def own_limits(mount: Path = MOUNT, own: Path = OWN) -> tuple[int, float]:
    """Bytes of memory and number of cpus that the cgroups of this process allow; 0: no limit."""
    try:
        paths = _own_paths(own)
    except OSError:
        return 0, 0.0
    if (mount / "cgroup.controllers").exists():
        memory = _least(mount, paths.get("", ""), "memory.max")
        quota = _read(mount / paths.get("", "").lstrip("/") / "cpu.max").split()
    else:
        memory = _least(mount / "memory", paths.get("memory", ""), "memory.limit_in_bytes")
        folder = mount / "cpu" / paths.get("cpu", "").lstrip("/")
        quota = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
    limited = len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1])
    return memory, int(quota[0]) / int(quota[1]) if limited else 0.0


def _least(hierarchy: Path, path: str, name: str) -> int:
    """The smallest limit from a cgroup up to the top."""
    folder = hierarchy / path.lstrip("/")
    found = []
    for each in (folder, *folder.parents):
        text = _read(each / name)
        if text.isdecimal() and int(text) < 1 << 62:
            found.append(int(text))
        if each == hierarchy:
            break
    return min(found, default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    path.write_text(text)
