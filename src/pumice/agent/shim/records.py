"""The files of a pod's folder, through which agent and shim speak to each other.

| file | written by | says |
|---|---|---|
| ``plan.json`` | agent, once | what is to run, with which GPUs and limits |
| ``shim.json`` | shim, once | which process holds the pod: pid, start time, boot |
| ``state.json`` | shim | each container: its process, how it ended |
| ``stop.json`` | agent | that the pod is to end, and how soon |
| ``logs/CONTAINER/RESTARTS.log`` | shim | output, rotated |

A file is replaced whole, so that a reader never sees half of it, whoever is killed. The plan is on disk before anything
of it is started, so that a crash of the machine cannot have it started again, and the last state soon after it is
written. A sync of the disk takes longer than all else that a short pod needs, so the other files have none: after a
crash of the machine they may be old or unreadable, and all that they could say is that the pod had not ended.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any, NotRequired, TypedDict

PLAN, SHIM, STATE, STOP = "plan.json", "shim.json", "state.json", "stop.json"
LOGS = "logs"


class ProbePlan(TypedDict):
    """An exec probe."""

    command: list[str]
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: NotRequired[float]
    """The seconds that the container has to end when the probe has failed; otherwise those of the pod."""


class MountPlan(TypedDict):
    """A folder or file that a container sees under another path."""

    source: str
    target: str
    read_only: bool
    own: bool
    """Whether the source is in the pod's folder; otherwise it is a path of the machine."""
    sub_path: str
    """The part of the source that is mounted; empty: all of it. Only where processes have an identity."""
    host_type: str
    """What a path of the machine must be, or is made to be; as ``sub_path``."""


class Identity(TypedDict):
    """The user as whom processes run."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    """All groups, sorted."""
    home: str
    shell: str


class ContainerPlan(TypedDict):
    """A container: a process and how it is started."""

    name: str
    init: bool
    command: list[str]
    folder: str
    """The working directory."""
    environment: dict[str, str]
    mounts: list[MountPlan]
    joined: list[str]
    """The files of cgroups that the process writes itself into."""
    oom_counter: str
    """The cgroup file that counts kills for lack of memory; empty without cgroups."""
    data_limit: int
    """Bytes of memory for each process, where no cgroup limits them together; 0: no limit."""
    probes: dict[str, ProbePlan]
    output: NotRequired[str]
    """The file to which the output is appended as well, with the rights of the process; empty: none."""
    identity: Identity | None
    """As whom it runs; None: as whoever runs the shim."""


class PodPlan(TypedDict):
    """A pod as the shim has to run it."""

    uid: str
    namespace: str
    name: str
    restart_policy: str
    grace: float
    deadline: float
    """Seconds that the pod may be active; 0: any time."""
    containers: list[ContainerPlan]
    boot: NotRequired[str]
    """The start of the machine in which the plan was made. Plans of former versions have none."""
    devices: dict[str, list[str]]
    """The devices that are the pod's alone, by resource."""
    ports: NotRequired[list[int]]
    """The ports of the machine at which the pod is to listen."""
    requests: dict[str, str]
    cgroups: list[str]
    """The cgroup folders of the pod, those of containers first."""
    notify: str
    """The datagram socket of the agent, in its folder, which hears that ``state.json`` is new."""
    log_bytes: int
    log_files: int


class RunRecord(TypedDict):
    """One run of a container."""

    pid: int
    start_ticks: int
    started: float
    finished: float
    exit_code: int
    reason: str
    message: str


class ContainerRecord(TypedDict):
    """A container as it is now."""

    name: str
    init: bool
    state: str
    """``waiting``, ``running`` or ``terminated``."""
    reason: str
    message: str
    restarts: int
    ready: bool
    run: RunRecord | None
    last: RunRecord | None


class PodRecord(TypedDict):
    """A pod as it is now."""

    phase: str
    reason: str
    message: str
    started: float
    finished: bool
    """Whether no process of the pod is left, and none will be started."""
    containers: list[ContainerRecord]


class ShimRecord(TypedDict):
    """The process of a shim, so that no other one is taken for it."""

    pid: int
    start_ticks: int
    boot: str


def ring_bell(path: str, text: str) -> None:
    """Send a word to the agent's socket, if the agent listens; by its folder, because paths of sockets are short."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            bell.sendto(text.encode(), f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def write_record(path: str, record: Any, *, durable: bool = False) -> None:
    """Replace a file by a record; ``durable``: return when a crash of the machine leaves it there."""
    fresh = f"{path}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(json.dumps(record, separators=(",", ":")).encode())
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(fresh, path)
    if durable:
        sync(os.path.dirname(path))


def sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_record(path: str) -> Any:
    """The record in a file; None if there is none, or a crash of the machine has left half of it."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return None
