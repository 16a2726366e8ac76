"""Clients of several languages on ``pumice up``, each through its own kubeconfig loader.

Each program in ``programs/`` makes a Volcano Job from its standard input, lists jobs, watches the job until it is
completed, patches it, reads the log of its pod, deletes it, and prints what it saw. So all of them are held to the same
answers. ``make test-clients`` installs the clients outside of the checkout (``tools/client_environments.py``); the test
of a client that is not installed is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_servers import pumice_up
from tests.support.processes import run_process
from tools.client_environments import CLIENT_GO, NODE, PYTHON

pytestmark = pytest.mark.clients

PROGRAMS = Path(__file__).parent / "programs"
CLIENTS = Path(os.environ.get("PUMICE_CLIENTS", "/nonexistent"))
PYTHON_PROGRAM = CLIENTS / PYTHON / "bin" / "python"
COMMANDS = {
    "kubernetes": [PYTHON_PROGRAM, PROGRAMS / "kubernetes_client.py"],
    "kr8s": [PYTHON_PROGRAM, PROGRAMS / "kr8s_client.py"],
    "lightkube": [PYTHON_PROGRAM, PROGRAMS / "lightkube_client.py"],
    "client-node": ["node", PROGRAMS / "client_node.mjs"],
    "client-go": [CLIENTS / CLIENT_GO],
}
NEEDED = {"client-node": CLIENTS / NODE, "client-go": CLIENTS / CLIENT_GO}
TRANSPORTS = {"http": "", "https": "known-to-the-kubeconfig"}


@pytest.fixture(scope="module", params=TRANSPORTS)
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    token = TRANSPORTS[request.param]
    with pumice_up("--nodes", "1", "--speed", "100", token=token, everything=True) as (_, written):
        yield written


def vcjob(name: str) -> dict[str, Any]:
    about = {"annotations": {"pumice.dev/run-seconds": "10"}}
    pod = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    task = {"name": "main", "replicas": 1, "template": {"metadata": about, "spec": pod}}
    spec = {"queue": "default", "minAvailable": 1, "tasks": [task]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.mark.parametrize("client", COMMANDS)
def test_client_creates_lists_watches_patches_and_deletes_a_job(client: str, kubeconfig: Path) -> None:
    if not NEEDED.get(client, CLIENTS / PYTHON).exists():
        pytest.skip(f"{client} is not installed; `make test-clients` does that")
    command = [str(part) for part in COMMANDS[client]]
    places = {"KUBECONFIG": str(kubeconfig), "CLIENT_NODE": str(CLIENTS / NODE)}
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = run_process(
        [*command, client],
        input=json.dumps(vcjob(client)),
        capture_output=True,
        text=True,
        env={**surroundings, **places},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert client in seen["listed"]
    assert seen["phases"][-1] == "Completed"
    assert seen["labels"]["patched"] == "yes"
    assert seen["log"] == "main: started busybox on node-000 (simulated)\nmain: exited with 0\n"
    assert seen["left"] == 0
