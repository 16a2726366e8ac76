"""A team that comes back gets its part of the machine, and the evicted jobs go on from their checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubebase.timestamps import moment_of
from pumice.kube.resources import PODS, QUEUES
from tests.support.machines import Machine
from tests.support.shell_pages import ROOT

PATIENCE, LEAST_RUN = 30, 60
"""The defaults of reclaim.patience and reclaim.minRuntime, in seconds."""
GRACE = 30
BUSY = 60
"""What a busy machine may take longer."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path, "cpu=4,memory=8Gi")
    yield found
    found.end()


def started(pod: dict[str, Any]) -> float:
    return moment(pod["status"]["startTime"])


def moment(text: str) -> float:
    return moment_of(text) / 1e6


def test_evicted_jobs_go_on_from_their_checkpoints(machine: Machine) -> None:
    """Four jobs of one team use the machine while the other sleeps; it wakes, and two of them make way for it."""
    for name in ("first", "second"):
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
        machine.client.create(QUEUES.path(), {**queue, "spec": {"weight": 1, "parent": "root"}})
    shutil.copy(ROOT / "examples" / "scripts" / "checkpoint.sh", machine.folder)
    for number in range(4):
        settings = ["--env", f"CHECKPOINT=state-{number}", "--env", "LAST=1500", "--env", "PAUSE=0.1"]
        done = machine.run("vsub", f"count-{number}", "-q", "first", *settings, "--", "./checkpoint.sh")
        assert done.returncode == 0, done.stderr
    states = [machine.folder / f"state-{number}" for number in range(4)]
    machine.until(lambda: all(state.exists() and int(state.read_text() or 0) >= 5 for state in states))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in machine.pods()}
    began = max(started(pod) for pod in machine.pods())
    machine.submit("woken", "sleep 600", 4, queue="second")

    def running(queue: str) -> list[dict[str, Any]]:
        labelled = [pod for pod in machine.pods() if pod["metadata"]["labels"].get("volcano.sh/queue-name") == queue]
        return [pod for pod in labelled if pod["status"].get("phase") == "Running"]

    machine.until(lambda: len(running("second")) == 2)
    asked = min(moment(pod["metadata"]["creationTimestamp"]) for pod in running("second"))
    may_take = max(asked + PATIENCE, began + LEAST_RUN)  # what the API says: how soon this test looks does not count
    assert max(started(pod) for pod in running("second")) <= may_take + GRACE + BUSY
    machine.client.delete("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/woken")
    machine.until(lambda: all(machine.phase(f"count-{number}") == "Completed" for number in range(4)))
    evicted = 0
    for number in range(4):
        name = f"count-{number}-main-0"
        lines = machine.client.text_lines(PODS.path("default", name, "log"), {})
        said = b"".join(lines).decode()
        assert said.endswith("done at step 1500\n")
        again = machine.client.get(PODS.path("default", name))["metadata"]["uid"] != before[name]
        evicted += again
        assert said.startswith("going on from step ") == again
    assert evicted == 2
