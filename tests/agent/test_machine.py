"""What the machine offers: cgroup limits, reserves, GPUs, and cgroups of both versions in a folder of the test."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

import pumice
from kubebase.field_error import FieldError
from kubebase.quantity import parse
from pumice.agent import machine
from pumice.agent.cgroups import ContainerLimits, find_cgroups, own_limits
from pumice.agent.gpus import Gpu, find_gpus
from pumice.agent.machine import find_machine


def test_capacity_and_reserve_replace_what_was_found(tmp_path: Path) -> None:
    found = find_machine(tmp_path, {"cpu": "4", "memory": "20Gi", "nvidia.com/gpu": "2"}, {})
    assert found.allocatable["memory"] == "19922944Ki"  # 20 Gi less a twentieth: 19 Gi
    assert [gpu.uuid for gpu in found.gpus] == ["0", "1"]
    assert found.capacity["cpu"] == found.allocatable["cpu"] == "4"
    kept = find_machine(tmp_path, {"cpu": "4"}, {"cpu": "500m"})
    assert (kept.capacity["cpu"], kept.allocatable["cpu"]) == ("4", "3500m")
    assert kept.allocatable["memory"] == kept.capacity["memory"]


def test_labels_and_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubelets and NVIDIA's feature discovery name them; GPUs are the first of those that are offered."""
    gpus = [Gpu(f"GPU-{number}", "NVIDIA H100 80GB HBM3") for number in range(4)]
    monkeypatch.setattr(machine, "find_gpus", lambda: gpus)
    found = find_machine(tmp_path, {}, {})
    assert found.labels["kubernetes.io/os"] == "linux"
    assert found.labels["kubernetes.io/arch"] in {"amd64", "arm64"}
    assert found.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert found.capacity["nvidia.com/gpu"] == "4"
    assert found.capacity.keys() == {"cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"}
    memory, quota = own_limits()
    assert parse(found.capacity["memory"]).value() <= (memory or math.inf)
    assert parse(found.capacity["cpu"]).milli() <= 1000 * min(len(os.sched_getaffinity(0)), quota or math.inf)
    assert find_machine(tmp_path, {"nvidia.com/gpu": "2"}, {}).gpus == gpus[:2]


@pytest.mark.parametrize(
    ("capacity", "reserve", "words"),
    [
        ({"nvidia.com/gpu": "1500m"}, {}, "--capacity: nvidia.com/gpu: 1500m is not a whole number"),
        ({}, {"example.com/slot": "1"}, "--reserve: the node has no example.com/slot"),
        ({"cpu": "1"}, {"cpu": "2"}, "--reserve: cpu=2 is more than the node has: 1"),
    ],
)
def test_impossible_amounts_are_refused(
    tmp_path: Path, capacity: dict[str, str], reserve: dict[str, str], words: str
) -> None:
    with pytest.raises(FieldError) as raised:
        find_machine(tmp_path, capacity, reserve)
    assert str(raised.value) == words


def test_gpus_by_the_files_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nvidia-ml-py is not installed, also if it is installed here and there is a GPU."""
    (tmp_path / "pynvml.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(pumice.__file__).parents[1]}")
    assert find_gpus(tmp_path / "none", tmp_path / "none") == []
    for number, uuid in enumerate(("GPU-a", "GPU-b")):
        folder = tmp_path / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA H100 80GB\nIRQ:   \t 9\nGPU UUID: \t {uuid}\n")
    assert find_gpus(tmp_path, tmp_path / "none") == [
        Gpu("GPU-a", "NVIDIA H100 80GB"),
        Gpu("GPU-b", "NVIDIA H100 80GB"),
    ]


def test_gpus_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nvidia-ml-py; where it does not answer, the files of the driver are read."""
    (tmp_path / "gpus" / "0").mkdir(parents=True)
    (tmp_path / "gpus" / "0" / "information").write_text("Model: Old\nGPU UUID: GPU-files\n")
    module = tmp_path / "pynvml.py"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(pumice.__file__).parents[1]}")
    module.write_text(
        "class NVMLError(Exception): pass\n"
        "def nvmlInit(): pass\n"
        "def nvmlDeviceGetCount(): return 2\n"
        "def nvmlDeviceGetHandleByIndex(number): return number\n"
        "def nvmlDeviceGetUUID(handle): return f'GPU-{handle}'\n"
        "def nvmlDeviceGetName(handle): return 'NVIDIA H200'\n"
    )
    assert find_gpus(tmp_path) == [Gpu("GPU-0", "NVIDIA H200"), Gpu("GPU-1", "NVIDIA H200")]
    module.write_text(
        "class NVMLError(Exception): pass\ndef nvmlInit(): raise NVMLError('Driver/library version mismatch')\n"
    )
    assert find_gpus(tmp_path) == [Gpu("GPU-files", "Old")]


def unified(tmp_path: Path) -> tuple[Path, Path]:
    """A cgroup hierarchy of version 2, as far as files go, and where this process is in it."""
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    (mount / "user").mkdir(parents=True)
    own.write_text("0::/user\n")
    (mount / "cgroup.controllers").write_text("cpu memory pids")
    (mount / "user" / "cgroup.subtree_control").write_text("cpu memory pids")
    (mount / "user" / "memory.max").write_text("1000000\n")
    (mount / "memory.max").write_text("max\n")
    (mount / "user" / "cpu.max").write_text("150000 100000\n")
    return mount, own


def test_limits_of_version_2(tmp_path: Path) -> None:
    """Quota and memory as bytes and microseconds of a period; the pod limits its processes."""
    mount, own = unified(tmp_path)
    assert own_limits(mount, own) == (1_000_000, 1.5)
    cgroups = find_cgroups("x", mount, own)
    assert cgroups is not None and cgroups.version == 2
    made = cgroups.create("uid", {"main": ContainerLimits(memory=1 << 20, cpu=250, cpu_request=1000)})
    folder = mount / "user" / "pumice.x" / "pod-uid"
    assert made.folders == [str(folder / "main"), str(folder)]
    assert made.joined == {"main": [str(folder / "main" / "cgroup.procs")]}
    assert made.oom_counters == {"main": str(folder / "main" / "memory.events")}
    written = {name: (folder / "main" / name).read_text() for name in ("memory.max", "cpu.max", "cpu.weight")}
    # 1000m are 1024 shares: 1 + 1022 * 9999 // 262142 = 39
    assert written == {"memory.max": "1048576", "cpu.max": "25000 100000", "cpu.weight": "39"}
    assert (folder / "pids.max").read_text() == "4096"


def test_limits_of_version_1(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/a/b\n3:cpu,cpuacct:/\n2:pids:/\n")
    for part in ("memory/a/b", "cpu", "pids"):
        (tmp_path / "cgroup" / part).mkdir(parents=True)
    (tmp_path / "cgroup" / "memory" / "a" / "memory.limit_in_bytes").write_text("5000\n")
    (tmp_path / "cgroup" / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert own_limits(tmp_path / "cgroup", own) == (5000, 0.0)
    assert find_cgroups("x", tmp_path / "cgroup", own) is None  # no cgroup.procs appears: this is no cgroup


def test_without_cgroups_there_are_none(tmp_path: Path) -> None:
    assert find_cgroups("x", tmp_path / "missing", Path(os.devnull)) is None
