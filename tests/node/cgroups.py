"""One cgroup for the containers of a cluster, in every hierarchy of the machine: version 1, 2, or both."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "pumice-node-"
"""The rest of the name is the id of the process that made the cgroup."""


def unavailable() -> str:
    """Why no cgroup can be made here; empty if one can."""
    hierarchies = list(_hierarchies())
    if not hierarchies:
        return "no cgroup hierarchy is mounted"
    readonly = [str(place) for place in hierarchies if not os.access(place, os.W_OK)]
    return f"{readonly[0]} cannot be written to" if readonly else ""


PODS = "kubepods"
"""The cgroup that a kubelet makes for all its pods."""


@contextlib.contextmanager
def own_cgroup(nodes: list[str], *, with_pods: bool = False) -> Iterator[str]:
    """The path of a new cgroup, with one for each node in it, for the time of a ``with`` block.

    ``with_pods``: and with that of its pods. A kubelet that counts more CPUs than there are cannot make it, because it
    would hand all of them down, but takes the one that it finds.
    """
    remove_stale()
    name = f"{PREFIX}{os.getpid()}"
    try:
        _create(name)
        for node in nodes:
            _create_node(f"{name}/{node}", with_pods=with_pods)
        yield f"/{name}"
    finally:
        _remove(name)


def reset(path: str, *, with_pods: bool = False) -> None:
    """Let the cgroup of a node be as after a reboot: without those of its containers."""
    _remove(path.lstrip("/"))
    _create_node(path.lstrip("/"), with_pods=with_pods)


def _create_node(name: str, *, with_pods: bool) -> None:
    _create(name)
    if with_pods:
        _create(f"{name}/{PODS}")


def remove_stale() -> None:
    """Remove the cgroups of processes that were killed before they could do so."""
    names = {path.name for hierarchy in _hierarchies() for path in hierarchy.glob(f"{PREFIX}*")}
    for name in names:
        if not Path("/proc", name.removeprefix(PREFIX)).exists():
            _remove(name)


def _hierarchies() -> Iterator[Path]:
    """Where containers may have cgroups: every mount of version 1, and the one of version 2."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(place)


def _create(name: str) -> None:
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
        _hand_down(hierarchy / name)


def _hand_down(path: Path) -> None:
    """Let a cgroup use what its parent may use; new ones may use nothing."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (path / file).exists() and not (path / "cgroup.controllers").exists():
            (path / file).write_text((path.parent / file).read_text())
    if (path / "cgroup.controllers").exists():
        for place in (path.parent, path):
            for controller in (place / "cgroup.controllers").read_text().split():
                with contextlib.suppress(OSError):  # not all controllers can be handed down
                    (place / "cgroup.subtree_control").write_text(f"+{controller}")


def _remove(name: str, seconds: float = 20) -> None:
    """Remove a cgroup with all in it. The kernel needs a moment to see that its processes are gone."""
    deadline = time.monotonic() + seconds
    while left := [path for hierarchy in _hierarchies() if (path := hierarchy / name).exists()]:
        for top in left:
            for place, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(place).rmdir()
        assert time.monotonic() < deadline, f"cgroups are not empty: {', '.join(map(str, left))}"
        time.sleep(0.05)
