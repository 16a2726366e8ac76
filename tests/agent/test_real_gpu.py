"""NVIDIA GPUs of this machine, with ``pumice up --here``; skipped where no driver answers.

What pods see is compared with what the driver's own program, ``nvidia-smi``, says of the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubebase.quantity import parse
from pumice.agent.gpus import DRIVER, Gpu, find_gpus, gpus_by_driver_files, gpus_by_nvml
from pumice.agent.pod_folders import PodFolders
from pumice.agent.pod_usage import GPU_MEMORY, gpu_use
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import NODES, PODS
from tests.support.cuda_programs import HELD_BYTES, keep_gpu_busy, list_gpus
from tests.support.machines import Machine
from tests.support.processes import run_process

GPU = "nvidia.com/gpu"


def driver_gpus() -> list[Gpu]:
    """The GPUs as ``nvidia-smi`` lists them; none without a driver that answers."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    with suppress(OSError, subprocess.SubprocessError):
        query = [program, "--query-gpu=uuid,name", "--format=csv,noheader"]
        done = run_process(query, capture_output=True, text=True, check=True)
        return [Gpu(*line.split(", ", 1)) for line in done.stdout.splitlines() if line.startswith("GPU-")]
    return []


REAL = driver_gpus()
pytestmark = [
    pytest.mark.skipif(not REAL, reason="no NVIDIA driver answers here"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("gpus"), "cpu=64,memory=64Gi")
    yield found
    found.end()


@pytest.fixture(autouse=True)
def _no_pods_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "machine" in request.fixturenames:
        machine: Machine = request.getfixturevalue("machine")
        machine.clear()


def submit(machine: Machine, name: str, command: list[str], gpus: int) -> None:
    """A job of one pod that runs a command with so many GPUs."""
    options = ["-R", f"cpu=1,memory=4Gi{f',{GPU}={gpus}' if gpus else ''}", "-q", "default"]
    done = machine.run("vsub", name, *options, "--", *command)
    assert done.returncode == 0, done.stderr


def pod(machine: Machine, name: str) -> dict[str, Any]:
    return dict(machine.client.get(PODS.path("default", f"{name}-main-0")))


def assert_waits(machine: Machine, name: str) -> None:
    """A job has no pod on the node, although one that came later and needs no GPU has run."""
    submit(machine, "later", ["true"], 0)
    machine.until(lambda: machine.phase("later") == "Completed")
    placed = [each["metadata"]["name"] for each in machine.pods() if each["spec"].get("nodeName")]
    assert f"{name}-main-0" not in placed


def log(machine: Machine, name: str) -> str:
    with suppress(ApiError):  # it has not begun
        lines = machine.client.text_lines(f"{PODS.path('default', f'{name}-main-0')}/log", {})
        return b"".join(lines).decode()
    return ""


def output(machine: Machine, name: str, last: str) -> list[str]:
    """The lines of a job, as soon as there is one with these words."""
    machine.until(lambda: last in log(machine, name))
    return log(machine, name).splitlines()


def variables(names: str) -> list[str]:
    return ["sh", "-c", " && ".join(f'echo "{name}=[${name}]"' for name in names.split())]


def test_the_library_and_the_driver_know_the_same_gpus() -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert gpus_by_nvml() == find_gpus() == REAL


def test_the_files_of_the_driver_name_the_same_gpus() -> None:
    if not list(DRIVER.glob("gpus/*/information")):
        pytest.skip("the driver's files are not visible here")
    assert {gpu.uuid for gpu in gpus_by_driver_files(DRIVER)} == {gpu.uuid for gpu in REAL}


def test_the_node_has_the_gpus_and_their_product(machine: Machine) -> None:
    (node,) = machine.client.list(NODES.path()).items
    assert node["status"]["capacity"][GPU] == node["status"]["allocatable"][GPU] == str(len(REAL))
    product = node["metadata"]["labels"]["nvidia.com/gpu.product"]
    assert product == re.sub(r"[^A-Za-z0-9._-]+", "-", REAL[0].product)


def test_a_pod_sees_exactly_its_gpu(machine: Machine) -> None:
    """By its variables, and by CUDA itself."""
    names = "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES"
    submit(machine, "words", variables(names), 1)
    machine.until(lambda: machine.phase("words") == "Completed")
    seen = dict(line.split("=", 1) for line in log(machine, "words").splitlines())
    assert seen["CUDA_VISIBLE_DEVICES"] == seen["NVIDIA_VISIBLE_DEVICES"]
    assert seen["CUDA_VISIBLE_DEVICES"] in {f"[{gpu.uuid}]" for gpu in REAL}
    submit(machine, "cuda", list_gpus(), 1)
    *uuids, count = output(machine, "cuda", "GPUs")
    assert count == "1 GPUs"
    assert set(uuids) <= {gpu.uuid for gpu in REAL}


def test_a_pod_without_gpus_sees_none(machine: Machine) -> None:
    names = "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES"
    submit(machine, "words", variables(names), 0)
    machine.until(lambda: machine.phase("words") == "Completed")
    assert log(machine, "words").splitlines() == [f"{name}=[]" for name in names.split()]
    submit(machine, "cuda", list_gpus(), 0)
    assert output(machine, "cuda", "GPUs") == ["0 GPUs"]


def test_the_next_pod_waits_for_a_gpu(machine: Machine) -> None:
    """All GPUs are in use; one more pod has no node until one of them ends, and then gets the GPU of that one."""
    for number in range(len(REAL)):
        submit(machine, f"first-{number}", keep_gpu_busy(), 1)
    held = [output(machine, f"first-{number}", "busy")[0] for number in range(len(REAL))]
    assert sorted(held) == sorted(gpu.uuid for gpu in REAL)
    submit(machine, "next", list_gpus(), 1)
    assert_waits(machine, "next")
    assert machine.run("vcancel", "first-0").returncode == 0
    assert output(machine, "next", "GPUs") == [held[0], "1 GPUs"]


def test_no_gpu_is_given_twice_when_the_agent_is_killed(machine: Machine) -> None:
    """The work goes on through ``kill -9``; its GPU is still its own afterwards, and free as soon as it has ended."""
    submit(machine, "kept", keep_gpu_busy(), len(REAL))
    *uuids, _, _ = output(machine, "kept", "busy")
    assert sorted(uuids) == sorted(gpu.uuid for gpu in REAL)
    (killed,) = machine.pids("agent")
    os.kill(killed, signal.SIGKILL)
    machine.until(lambda: machine.pids("agent") not in ([], [killed]))
    machine.until(machine.nodes_ready)
    submit(machine, "next", list_gpus(), 1)
    assert_waits(machine, "next")
    assert PodFolders(machine.data / "agent" / "pods").taken_devices(GPU) == set(uuids)
    assert pod(machine, "kept")["status"]["phase"] == "Running"
    assert machine.run("vcancel", "kept").returncode == 0
    assert output(machine, "next", "GPUs")[-1] == "1 GPUs"


def test_use_of_a_gpu_is_shown(machine: Machine) -> None:
    """By the metrics API, ``pumice top`` and ``vjobs``, of a process that holds a GiB and writes to it for ever."""
    submit(machine, "busy", keep_gpu_busy(), 1)
    uuid = output(machine, "busy", "busy")[0]
    machine.until(lambda: gpu_use().get(uuid, (0, 0))[0] > 0)

    def usage() -> dict[str, str]:
        try:
            found = machine.client.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy-main-0")
        except ApiError:
            return {}
        return dict(found["containers"][0]["usage"])

    machine.until(lambda: parse(usage().get(GPU, "0")).nano > 0)
    assert parse(usage()[GPU_MEMORY]).value() >= HELD_BYTES
    time.sleep(0.6)  # the next question is measured anew
    for words, pattern in (
        (["pumice", "top", "--once", "--view", "jobs"], r"(?s) GPU-NOW\n.*default/busy .* [01]\.\d\d\n"),
        (["vjobs", "-o", "wide"], r"busy .*\bgpu=[01]\.\d\d"),
    ):
        shown = machine.run(*words)
        assert shown.returncode == 0, shown.stderr
        assert re.search(pattern, shown.stdout), shown.stdout


def test_capacity_takes_away_gpus(tmp_path: Path) -> None:
    """``--capacity`` with fewer GPUs than there are keeps the first ones, by UUID."""
    from pumice.agent.machine import find_machine

    found = find_machine(tmp_path, {GPU: "1"}, {})
    assert found.gpus == REAL[:1]
