"""Pods that a shim runs without an agent: a folder, a plan in few words, and an end to every process of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from pumice.agent.shim.process_table import is_same_process, kill_all, marked_processes
from pumice.agent.shim.records import (
    PLAN,
    SHIM,
    STATE,
    STOP,
    ContainerPlan,
    PodPlan,
    PodRecord,
    read_record,
    write_record,
)
from pumice.agent.shim_start import NOT_PLAIN, ForkServerProcess, server_commands

SECONDS = 20.0


def container(name: str, *command: str, **more: Any) -> ContainerPlan:
    """A container that runs a command."""
    plan = {
        "name": name,
        "init": False,
        "command": list(command),
        "folder": "/",
        "environment": {},
        "mounts": [],
        "joined": [],
        "oom_counter": "",
        "data_limit": 0,
        "probes": {},
        **more,
    }
    return cast("ContainerPlan", plan)


class ShimmedPod:
    """A pod in a folder of its own."""

    def __init__(self, folder: Path, *containers: ContainerPlan, **more: Any) -> None:
        self.folder = folder
        self.uid = f"test-{os.getpid()}-{folder.name}"
        folder.mkdir(mode=0o700)
        for each in containers:
            each["environment"] |= {
                "PATH": os.environ["PATH"],
                "PUMICE_POD_UID": self.uid,
                "PUMICE_CONTAINER": each["name"],
            }
        plan = {
            "uid": self.uid,
            "namespace": "default",
            "name": "pod",
            "restart_policy": "Never",
            "grace": 5.0,
            "deadline": 0.0,
            "containers": list(containers),
            "devices": {},
            "requests": {},
            "cgroups": [],
            "notify": "\0pumice-test-nobody",
            "log_bytes": 1 << 20,
            "log_files": 3,
            **more,
        }
        write_record(str(folder / PLAN), cast("PodPlan", plan))

    def start(self) -> None:
        """Start the shim, from a server that ends as soon as it runs."""
        for command in server_commands():
            server = ForkServerProcess(command)
            server.channel.settimeout(SECONDS)
            server.channel.send(os.fsencode(self.folder))
            answer = server.channel.recv(4096)
            server.close()
            if answer != NOT_PLAIN + os.fsencode(self.folder):
                break
        assert answer == b"+" + os.fsencode(self.folder), (self.folder / "shim.log").read_text()

    def stop(self, grace: float) -> None:
        """Ask the shim to end the pod."""
        write_record(str(self.folder / STOP), {"grace": grace})
        os.kill(self.shim_pid, signal.SIGTERM)

    @property
    def shim_pid(self) -> int:
        """The process of the shim."""
        return int(read_record(str(self.folder / SHIM))["pid"])

    @property
    def record(self) -> PodRecord:
        """What the shim has written down."""
        return cast(
            "PodRecord", read_record(str(self.folder / STATE)) or {"phase": "", "containers": [], "finished": False}
        )

    def wait(self, wanted: Callable[[PodRecord], object]) -> PodRecord:
        """Wait until the record is as wanted."""
        until = time.monotonic() + SECONDS
        while not wanted(found := self.record):
            assert time.monotonic() < until, found
            time.sleep(0.02)
        return found

    def wait_finished(self) -> PodRecord:
        """Wait for the end of the pod."""
        return self.wait(lambda record: record["finished"])

    def log(self, name: str, number: int = 0) -> list[tuple[str, str]]:
        """Stream and text of each line of a log."""
        path = self.folder / "logs" / name / f"{number}.log"
        return [
            (line.split(" ", 3)[1], line.split(" ", 3)[3])
            for line in path.read_text(errors="surrogateescape").splitlines()
        ]

    def end(self) -> None:
        """Kill whatever is left."""
        shim = read_record(str(self.folder / SHIM))
        if shim is not None and is_same_process(shim["pid"], shim["start_ticks"], shim["boot"]):
            with suppress(ProcessLookupError):
                os.kill(shim["pid"], signal.SIGKILL)
        assert kill_all(lambda: marked_processes(self.uid))


@contextmanager
def shimmed_pod(folder: Path, *containers: ContainerPlan, **more: Any) -> Iterator[ShimmedPod]:
    """A pod that runs for the time of a ``with`` block."""
    pod = ShimmedPod(folder, *containers, **more)
    try:
        pod.start()
        yield pod
    finally:
        pod.end()
