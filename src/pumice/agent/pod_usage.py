"""What pods and the machine really use: cpu, memory and GPUs, measured when somebody asks.

Nothing is sampled at rest. The rate of cpu is that since the last question; if that is long ago, two looks are taken a
moment apart. With cgroups of version 2 the kernel counts; otherwise the times and sizes of the processes are added up.
"""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pumice.agent.machine import GPU
from pumice.agent.pod_folders import PodFolder, PodFolders
from pumice.agent.shim.process_table import CONTAINER_VARIABLE, descendants
from pumice.agent.shim.records import ContainerPlan

NANOS = 10**9
LONGEST_WINDOW, SHORTEST_WINDOW = 60.0, 0.5
GPU_MEMORY = "nvidia.com/gpu.memory"
SMI_SECONDS = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """Cpu time in nanoseconds since the start, and bytes of memory."""

    cpu: int
    memory: int


Samples = dict[tuple[str, str], Sample]
"""By uid of the pod and name of the container; the machine has empty ones."""


class UsageMeter:
    """Measures the pods of this node."""

    def __init__(self, folders: PodFolders) -> None:
        self._folders = folders
        self._last: Samples = {}
        self._moment = -math.inf  # the clock counts from the boot of the machine, which may be a moment ago
        self._measuring = asyncio.Lock()
        self._report: dict[str, Any] = {}

    async def measure(self) -> dict[str, Any]:
        """What the pods use: cpu in nanocores, memory in bytes, GPUs in nano; by uid and container."""
        async with self._measuring:
            age = time.monotonic() - self._moment
            if age < SHORTEST_WINDOW and self._report:
                return self._report
            if age > LONGEST_WINDOW:
                await self._look()
                await asyncio.sleep(SHORTEST_WINDOW)
            before, since = self._last, self._moment
            await self._look()
            gpus = await asyncio.to_thread(gpu_use) if self._folders.taken_devices(GPU) else {}
            self._report = self._compare(before, self._moment - since, gpus)
            return self._report

    async def _look(self) -> None:
        self._last = await asyncio.to_thread(self._samples)
        self._moment = time.monotonic()

    def _samples(self) -> Samples:
        found = {("", ""): machine_sample()}
        for folder in self._folders:
            if folder.plan is not None and not folder.finished:
                for name, sample in pod_samples(folder).items():
                    found[folder.uid, name] = sample
        return found

    def _compare(self, before: Samples, seconds: float, gpus: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
        report: dict[str, Any] = {"window": seconds, "node": {}, "pods": {}}
        for (uid, name), now in self._last.items():
            earlier = before.get((uid, name))
            spent = now.cpu - earlier.cpu if earlier is not None else now.cpu  # what is new started since the last look
            usage = {"cpu": max(0, round(spent / seconds)), "memory": now.memory}
            if uid:
                report["pods"].setdefault(uid, {})[name] = usage
            else:
                report["node"] = usage
        for folder in self._folders:
            devices = folder.plan["devices"].get(GPU, []) if folder.plan is not None else []
            used = [gpus[device] for device in devices if device in gpus]
            if used and folder.uid in report["pods"]:
                first = next(iter(report["pods"][folder.uid].values()))
                first[GPU] = sum(percent for percent, _ in used) * NANOS // 100
                first[GPU_MEMORY] = sum(memory for _, memory in used)
        return report


def pod_samples(folder: PodFolder) -> dict[str, Sample]:
    """The containers of a pod that run: what each has used."""
    assert folder.plan is not None
    record, shim = folder.record(), folder.shim()
    if record is None or shim is None:
        return {}
    running = {each["name"] for each in record["containers"] if each["state"] == "running"}
    plans = [plan for plan in folder.plan["containers"] if plan["name"] in running]
    below = descendants(shim["pid"]) if any(not plan["joined"] for plan in plans) else set()
    return {plan["name"]: container_sample(plan, below, alone=len(plans) == 1) for plan in plans}


def container_sample(plan: ContainerPlan, below: Iterable[int], *, alone: bool) -> Sample:
    """What a container has used: by its cgroups, or by its processes (those below the shim that are its own)."""
    folders = [os.path.dirname(path) for path in plan["joined"]]
    cpu, memory = _counted(folders, "cpu.stat", "usage_usec"), -1
    for folder, file, cache in (
        *((folder, "memory.current", "inactive_file") for folder in folders),
        *((folder, "memory.usage_in_bytes", "total_inactive_file") for folder in folders),
    ):
        if memory < 0 and (used := _number(f"{folder}/{file}")) >= 0:
            memory = max(0, used - max(0, _counted([folder], "memory.stat", cache)))
    if cpu >= 0 and memory >= 0:
        return Sample(cpu * 1000, memory)
    pids = _own_processes(plan, folders, below, alone=alone)
    together = processes_sample(pids)
    accounted = next((n for folder in folders if (n := _number(f"{folder}/cpuacct.usage")) >= 0), -1)
    return Sample(accounted if accounted >= 0 else together.cpu, memory if memory >= 0 else together.memory)


def _own_processes(plan: ContainerPlan, folders: list[str], below: Iterable[int], *, alone: bool) -> list[int]:
    if folders:
        with suppress(OSError), open(f"{folders[0]}/cgroup.procs") as file:
            return [int(line) for line in file]
        return []
    if alone:
        return list(below)
    marker = f"{CONTAINER_VARIABLE}={plan['name']}".encode()
    found = []
    for pid in below:
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if marker in file.read().split(b"\0"):
                found.append(pid)
    return found


def processes_sample(pids: Iterable[int]) -> Sample:
    """The cpu time of processes and of their ended children, and their resident memory without shared pages."""
    ticks = pages = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b") ")[2].split()
            ticks += sum(map(int, fields[11:15]))
            with open(f"/proc/{pid}/statm") as statm:
                _, resident, shared = statm.read().split()[:3]
            pages += int(resident) - int(shared)
    return Sample(ticks * NANOS // _TICKS, pages * _PAGE)


def machine_sample() -> Sample:
    """What all processes of the machine have used: time that was neither idle nor waiting for a disk."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, *rest = map(int, file.readline().split()[1:])
    memory: dict[str, int] = {}
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, amount = line.partition(":")
            memory[name] = int(amount.split()[0]) * 1024
    busy = user + nice + system + sum(rest[:3])  # interrupts and time that a host took
    return Sample(busy * NANOS // _TICKS, memory["MemTotal"] - memory.get("MemAvailable", 0))


def gpu_use() -> dict[str, tuple[int, int]]:
    """By UUID: how many percent of the time a GPU was busy, and bytes of its memory in use; none without a driver."""
    from shutil import which  # with its compression, half a MiB

    program = which("nvidia-smi")
    if program is None:
        return {}
    query = [program, "--query-gpu=uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    found = {}
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SMI_SECONDS, check=True)
        for line in done.stdout.decode().splitlines():
            uuid, busy, memory = (part.strip() for part in line.split(","))
            if busy.isdecimal() and memory.isdecimal():
                found[uuid] = (int(busy), int(memory) << 20)
    return found


def _number(path: str) -> int:
    """The number in a file; -1 if there is none."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def _counted(folders: Iterable[str], file: str, name: str) -> int:
    """A named number in a file of one of these folders; -1 if none has it."""
    for folder in folders:
        with suppress(OSError), open(f"{folder}/{file}") as lines:
            for line in lines:
                key, _, value = line.partition(" ")
                if key == name:
                    return int(value)
    return -1
