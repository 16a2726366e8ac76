"""The first process of a node: it sets up the namespaces that ``unshare`` gave it, and holds them open.

python -m tests.node.first_process NAME FOLDER [CPUS]

It ends when its standard input does, so that a node never outlives the process that started it. When it ends, the
kernel ends everything in the namespaces: daemons, containers, mounts and interfaces.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from pathlib import Path

from tests.support.processes import run_process

READY = "ready"
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What a kubelet sets for the whole machine. It finds files with these values instead, and changes nothing."""


def prepare(name: str, folder: Path) -> None:
    """Give the node its own host name, ``/sys``, ``/run``, ``/var/lib``, ``/var/log`` and kernel settings."""
    socket.sethostname(name)
    cgroups = _made(folder / "cgroups")
    _mount("--rbind", "/sys/fs/cgroup", cgroups)
    _run("umount", "--recursive", "--lazy", "/sys")
    _mount("-t", "sysfs", "none", "/sys")  # that of this network namespace
    _mount("--move", cgroups, "/sys/fs/cgroup")
    for place in ("/run", "/var/lib"):
        _mount("-t", "tmpfs", "-o", "mode=755", "none", place)
    Path("/run/netns").mkdir()
    _mount("--bind", _made(folder / "log"), "/var/log")
    for setting, value in KERNEL_SETTINGS.items():
        shadow = _made(folder / "kernel") / setting.replace("/", ".")
        shadow.write_text(f"{value}\n")
        _mount("--bind", shadow, Path("/proc/sys") / setting)
    _mount("--make-rshared", "/")  # kubelets insist
    _run("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def show_cpus(folder: Path, count: int) -> None:
    """Let a kubelet count so many CPUs: it counts folders of ``/sys``. Containers share those that are there."""
    cpus = _made(folder / "cpu")
    (cpus / "online").write_text(f"0-{count - 1}\n")
    for number in range(count):
        topology = _made(_made(cpus / f"cpu{number}") / "topology")
        (topology / "core_id").write_text(f"{number}\n")
        (topology / "physical_package_id").write_text("0\n")
    _mount("--bind", cpus, "/sys/devices/system/cpu")
    _mount("--bind", _made(folder / "no-numa-nodes"), "/sys/devices/system/node")


def hold() -> None:
    """Reap orphans until standard input ends."""
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], 1)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _mount(*arguments: str | Path) -> None:
    _run("mount", *arguments)


def _run(*command: str | Path) -> None:
    run_process(command, check=True)


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]))
    if len(sys.argv) > 3:
        show_cpus(Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    hold()
