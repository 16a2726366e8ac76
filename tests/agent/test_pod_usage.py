"""What pods use: by cgroups, by their processes, by the GPU driver; and how the metrics API shows it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubebase.quantity import parse
from pumice.agent import pod_usage
from pumice.agent.pod_folders import PodFolders
from pumice.agent.pod_usage import GPU_MEMORY, SHORTEST_WINDOW, Sample, UsageMeter, container_sample, gpu_use
from pumice.agent.shim.records import ContainerPlan
from pumice.cli.cluster.measured_use import format_use, use_by_job, use_by_pod
from tests.support.agents import AgentWorld, on_this_machine

PLAN: ContainerPlan = {
    "name": "main",
    "init": False,
    "command": ["true"],
    "folder": "/",
    "environment": {},
    "mounts": [],
    "joined": [],
    "oom_counter": "",
    "data_limit": 0,
    "probes": {},
}
BUSY = "x = bytearray(64 << 20)\nprint('on', flush=True)\nwhile True: pass"


def write(folder: Path, **files: str) -> str:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder / "cgroup.procs")


def test_cgroups_of_version_2_count_themselves(tmp_path: Path) -> None:
    """Files that the kernel can drop at once (inactive) are not in use."""
    path = write(
        tmp_path / "two",
        cpu__stat="usage_usec 1500\nuser_usec 1000\n",
        memory__current="9000\n",
        memory__stat="anon 5000\ninactive_file 3000\n",
        cgroup__procs="",
    )
    assert container_sample({**PLAN, "joined": [path]}, [], alone=True) == Sample(cpu=1_500_000, memory=6000)


def test_cgroups_of_version_1_count_in_their_hierarchies(tmp_path: Path) -> None:
    memory = write(
        tmp_path / "memory",
        memory__usage_in_bytes="9000\n",
        memory__stat="total_inactive_file 1000\n",
        cgroup__procs="",
    )
    cpu = write(tmp_path / "cpu", cpuacct__usage="77\n", cgroup__procs="")
    assert container_sample({**PLAN, "joined": [memory, cpu]}, [], alone=True) == Sample(cpu=77, memory=8000)


def test_gpus_are_read_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_use() == {}
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-a, 75, 1024'\necho 'GPU-b, [N/A], 3'\n")
    program.chmod(0o755)
    assert gpu_use() == {"GPU-a": (75, 1 << 30)}


def test_pods_of_processes_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds 64 MiB and is never idle, through the metrics API; the GPU that it has is half busy."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, 50, 512'\necho '1, 99, 1'\n")
    program.chmod(0o755)

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            limits = {"limits": {"nvidia.com/gpu": "1"}}
            await world.submit("busy", "", command=[sys.executable, "-c", BUSY], resources=limits)
            await world.lines("busy")
            monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
            pods = await metrics(world, "/pods/busy")
            (container,) = pods["containers"]
            assert container["name"] == "main"
            assert parse(container["usage"]["cpu"]).nano > 0
            assert 64 << 20 <= parse(container["usage"]["memory"]).value() < 200 << 20
            assert parse(container["usage"]["nvidia.com/gpu"]).milli() == 500
            assert parse(container["usage"][GPU_MEMORY]).value() == 512 << 20
            await world.submit("later", "", command=[sys.executable, "-c", BUSY])
            await world.lines("later")
            await asyncio.sleep(SHORTEST_WINDOW)  # until then, the answer is that of the last question
            (container,) = (await metrics(world, "/pods/later"))["containers"]
            assert parse(container["usage"]["cpu"]).nano > 0  # it was not there at the last question
            (node,) = (await metrics(world, "/nodes", ""))["items"]
            assert parse(node["usage"]["memory"]).value() > 64 << 20
        await asyncio.sleep(0)
        assert (await metrics(world, "/pods"))["items"] == []  # nobody measures without the agent

    on_this_machine(tmp_path, check)


def test_the_first_question_may_come_right_after_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates need two looks, also while the clock, which counts from the boot, shows less than the longest window."""
    boot, clock = time.monotonic(), time.monotonic
    monkeypatch.setattr(pod_usage, "time", SimpleNamespace(monotonic=lambda: clock() - boot))
    report = asyncio.run(UsageMeter(PodFolders(tmp_path)).measure())
    assert report["window"] >= SHORTEST_WINDOW


async def metrics(world: AgentWorld, path: str, place: str = "/namespaces/default") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        await world.api.session.call("GET", f"/apis/metrics.k8s.io/v1beta1{place}{path}")
    )
    return found


def test_use_is_added_up_for_people() -> None:
    pods = [
        {
            "metadata": {"namespace": "n", "name": f"j-{i}", "labels": {"volcano.sh/job-name": "j"}},
            "containers": [
                {"name": "a", "usage": {"cpu": "900m", "memory": "10Mi"}},
                {"name": "b", "usage": {"cpu": "30m", "memory": "1000Ki", "nvidia.com/gpu": "500m"}},
            ],
        }
        for i in (0, 1)
    ]
    assert format_use(use_by_pod(pods)["n", "j-0"]) == "cpu=0.93,memory=11Mi,gpu=0.50"
    assert format_use(use_by_job(pods)["n", "j"]) == "cpu=1.86,memory=22Mi,gpu=1.00"
