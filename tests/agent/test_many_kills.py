"""200 kills (SIGKILL) of agent, shims, API server and scheduler at random moments, while GPUs change hands.

Each process writes down that it began, holds a lock on its GPU, and writes down its exit code before it exits. At the
end these notes are compared with what the API shows.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.agent.shim.process_table import marked_processes
from pumice.agent.shim.records import SHIM, read_record
from pumice.agent.shim_start import server_commands
from pumice.kube.client.api_errors import ApiError, UnreachableError
from tests.support.machines import Machine

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("PUMICE_KILLS", "200"))
ACTIVE_JOBS = 8
PROGRESS_SECONDS = 60.0
SCRIPT = """
echo began >> {here}/began-$PUMICE_POD_UID
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
  exec 9> {here}/gpu-$CUDA_VISIBLE_DEVICES
  flock -n 9 || echo $PUMICE_POD_UID $CUDA_VISIBLE_DEVICES >> {here}/shared
fi
sleep {seconds:.1f}
echo {code} > {here}/.code-$PUMICE_POD_UID
mv {here}/.code-$PUMICE_POD_UID {here}/code-$PUMICE_POD_UID
exit {code}
"""


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("kills"), "cpu=6,memory=8Gi,nvidia.com/gpu=2")
    yield found
    found.end()


class Load:
    """Jobs that are submitted as others end."""

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        self._machine = machine
        self._rng = rng
        self.here = machine.folder / "notes"
        self.here.mkdir()
        self.submitted = 0
        self._noted = 0

    def top_up(self) -> None:
        try:
            ended = sum(phase in {"Completed", "Failed"} for phase in self.phases().values())
            while self.submitted - ended < ACTIVE_JOBS:
                self._submit()
        except (ApiError, UnreachableError):
            return  # it is being started again

    def wait_for_progress(self) -> None:
        """Until a process has begun or ended since the last time: on a busy machine nothing would run between kills."""
        until = time.monotonic() + PROGRESS_SECONDS
        while (count := len(list(self.here.iterdir()))) <= self._noted and time.monotonic() < until:
            time.sleep(0.1)
        self._noted = count

    def _submit(self) -> None:
        code = self._rng.choice([0, 0, 3, 7, 42])
        script = SCRIPT.format(here=self.here, seconds=self._rng.uniform(0.5, 6), code=code)
        limits = {"cpu": "1", "memory": "32Mi", **({"nvidia.com/gpu": "1"} if self.submitted % 2 else {})}
        try:
            self._machine.submit(f"job-{self.submitted}", script, 1, limits=limits)
        except ApiError as error:
            if not error.already_exists:  # created by a request whose answer was lost
                raise
        self.submitted += 1

    def phases(self) -> dict[str, str]:
        from pumice.kube.resources import JOBS

        jobs = self._machine.client.list(JOBS.path("default")).items
        return {job["metadata"]["name"]: (job.get("status") or {}).get("state", {}).get("phase", "") for job in jobs}


def kill_a_shim(machine: Machine, rng: random.Random) -> str:
    """Kill the shim of a random pod; its uid."""
    folders = sorted((machine.data / "agent" / "pods").iterdir())
    rng.shuffle(folders)
    for folder in folders:
        shim = read_record(str(folder / SHIM))
        try:
            words = Path(f"/proc/{shim['pid']}/cmdline").read_bytes() if shim else b""
        except OSError:
            continue
        if os.fsencode(folder) in words:
            os.kill(shim["pid"], signal.SIGKILL)
            return folder.name
    return ""


def test_nothing_runs_twice_or_is_lost_by_many_kills(machine: Machine) -> None:
    print(f"shims: {server_commands()[0][0]}", flush=True)
    rng = random.Random(20)
    load, kills, lost = Load(machine, rng), Counter[str](), set()
    while kills.total() < KILLS:
        load.top_up()
        load.wait_for_progress()
        time.sleep(rng.uniform(0.1, 2.0))
        target = rng.choices(["shim", "agent", "up", "scheduler"], [45, 25, 8, 22])[0]
        if target == "shim":
            uid = kill_a_shim(machine, rng)
            lost.add(uid)
            kills[target] += bool(uid)
        elif machine.pids(target):
            machine.kill(target)
            kills[target] += 1
        print(f"kills: {dict(kills)}, {load.submitted} jobs", flush=True)
    machine.until(
        lambda: len(phases := load.phases()) == load.submitted and set(phases.values()) <= {"Completed", "Failed"}
    )
    pods = machine.pods()
    assert len(pods) == load.submitted
    assert not (load.here / "shared").exists(), (load.here / "shared").read_text()
    for pod in pods:
        check_pod(pod, load.here, lost)
    uids = [pod["metadata"]["uid"] for pod in pods]
    machine.clear()
    machine.until(lambda: not any(map(marked_processes, uids)))
    machine.until(lambda: not list((machine.data / "agent" / "pods").iterdir()))


def check_pod(pod: dict[str, Any], here: Path, lost: set[str]) -> None:
    """Began once; its exit code is the one that it wrote, unless its shim was killed."""
    uid, status = pod["metadata"]["uid"], pod["status"]
    said = f"{pod['metadata']['name']}: {status}"
    began, code = here / f"began-{uid}", here / f"code-{uid}"
    assert status["phase"] in {"Succeeded", "Failed"}, said
    ended = (status.get("containerStatuses") or [{}])[0].get("state", {}).get("terminated")
    if status.get("reason") == "ShimLost":
        assert uid in lost, said
        assert not began.exists() or began.read_text() == "began\n", said
        return
    assert began.read_text() == "began\n", said
    assert ended and ended["exitCode"] == int(code.read_text()), said
