"""What this machine offers as a node: capacity, what is kept for the system, labels."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubebase.field_error import FieldError
from kubebase.quantity import NANOS, Notation, Quantity, QuantityError, parse
from pumice.agent.cgroups import own_limits
from pumice.agent.gpus import Gpu, find_gpus, stand_in_gpus

LOOPBACK = "127.0.0.1"
GPU = "nvidia.com/gpu"
LOG_SOCKET = "logs.sock"
LONGEST_SOCKET = 107  # bytes of a path
MOST_PODS = "110"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
RESERVED_PART = 20
"""Without ``--reserve``, a twentieth of the memory is kept for the system."""
_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as a node has it."""

    capacity: dict[str, str]
    allocatable: dict[str, str]
    labels: dict[str, str]
    gpus: list[Gpu]


def node_name() -> str:
    """The host name, as a node may be called."""
    name = re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.")
    return name or "localhost"


def address_towards(server: str) -> str:
    """The address of this machine from which an API server is reached."""
    host = urlsplit(server).hostname or LOOPBACK
    with suppress(OSError):
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing
            return str(probe.getsockname()[0])
    return LOOPBACK


def find_log_socket(folder: Path) -> Path | None:
    """Where an agent with this folder serves logs to an API server of the same machine; None: its path is too long."""
    path = folder / LOG_SOCKET
    return path if len(os.fsencode(path)) <= LONGEST_SOCKET else None


def find_machine(folder: Path, capacity: Mapping[str, str], reserve: Mapping[str, str]) -> Machine:
    """What the machine has; ``capacity`` replaces parts of it, ``reserve`` is kept for the system."""
    gpus = find_gpus()
    if GPU in capacity:
        count = _whole(capacity[GPU], f"--capacity: {GPU}")
        gpus = gpus[:count] if len(gpus) >= count else stand_in_gpus(count)
    found = {**_measured(folder), **({GPU: str(len(gpus))} if gpus else {}), **capacity}
    kept = reserve or {"memory": str(parse(found["memory"]).value() // RESERVED_PART)}
    return Machine(found, _less(found, kept), _labels(gpus), gpus)


def _measured(folder: Path) -> dict[str, str]:
    memory, quota = own_limits()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpus = float(len(os.sched_getaffinity(0)))
    if quota:
        cpus = min(cpus, quota)
    disk = os.statvfs(folder)
    return {
        "cpu": f"{int(cpus * 1000)}m" if cpus % 1 else str(int(cpus)),
        "memory": f"{min(total, memory or total) // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "pods": MOST_PODS,
    }


def _less(capacity: Mapping[str, str], reserve: Mapping[str, str]) -> dict[str, str]:
    found = dict(capacity)
    for name, amount in reserve.items():
        if name not in capacity:
            raise FieldError("--reserve", f"the node has no {name}")
        left = parse(capacity[name]).nano - parse(amount).nano
        if left < 0:
            raise FieldError("--reserve", f"{name}={amount} is more than the node has: {capacity[name]}")
        bytewise = name == "memory" or name.endswith("-storage")
        found[name] = f"{left // NANOS // 1024}Ki" if bytewise else Quantity(left, Notation.DECIMAL_SI).format()
    return found


def _whole(amount: str, where: str) -> int:
    try:
        count = parse(amount)
    except QuantityError as error:
        raise FieldError(where, str(error)) from None
    if count.nano % NANOS:
        raise FieldError(where, f"{amount} is not a whole number")
    return count.value()


def _labels(gpus: list[Gpu]) -> dict[str, str]:
    found = {
        "kubernetes.io/arch": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "kubernetes.io/os": "linux",
    }
    if gpus and gpus[0].product:
        found["nvidia.com/gpu.product"] = _LABEL.sub("-", gpus[0].product).strip("-._")[:63]
    return found
