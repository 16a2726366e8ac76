"""``pumice up --here`` by somebody who is not root: no cgroups, no mounts, and all processes are that user's."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.agent.shim.process_table import start_ticks
from pumice.agent.shim.records import SHIM, read_record
from pumice.agent.shim_start import NATIVE
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import NODES, PODS
from tests.support.agents import end_processes_in
from tests.support.people import Account, accounts, need_root, open_folder, pod_of, shell_as
from tests.support.processes import end_process, start_process

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SOURCE = Path(__file__).parents[2] / "src"
SECONDS = 60.0
LEAVES_A_DAEMON = "setsid sh -c 'trap \"\" TERM HUP; echo $$$$; exec sleep 600' & sleep 0.3"


class World:
    """A cluster of a user, and a client of it."""

    def __init__(self, account: Account, client: Client) -> None:
        self.account = account
        self.client = client
        self.agent = account.home / "data" / "agent"

    def submit(self, name: str, script: str, **more: Any) -> str:
        return str(self.client.create(PODS.path("default"), pod_of(name, script, **more))["metadata"]["uid"])

    def phase(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait for one of these phases; the status then."""
        return until(lambda: found if (found := self._status(name)).get("phase") in phases else {})

    def _status(self, name: str) -> dict[str, Any]:
        return dict(self.client.get(PODS.path("default", name)).get("status") or {})

    def lines(self, name: str) -> list[str]:
        return [line.decode().rstrip() for line in self.client.text_lines(PODS.path("default", name, "log"), {})]


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.fixture(params=["python", "native"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """With the shim in Python, and with the compiled one where there is a C compiler."""
    need_root()
    with open_folder() as folder, accounts(folder, f"plain{os.getpid() % 100_000}") as (account,):
        source = folder / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        if request.param == "native":
            shutil.copy(request.getfixturevalue("native_shim"), source / NATIVE.relative_to(SOURCE))
        options = f"--here --here-capacity cpu=4,memory=2Gi --no-ui --port 0 --data {account.home}/data"
        variables = {"HOME": str(account.home), "PATH": os.environ["PATH"], "PYTHONPATH": str(source)}
        with (folder / "log").open("w") as log:
            command = shell_as(account, f"exec {sys.executable} -m pumice up {options}", variables)
            process = start_process(command, stdout=log, stderr=log)
        client = None
        try:
            until((account.home / "data" / "kubeconfig").exists)
            client = Client(read_kubeconfig(account.home / "data" / "kubeconfig"))
            until(lambda: is_ready(client))
            yield World(account, client)
            assert "limits of pods: cgroups cannot be written" in (folder / "log").read_text()
        finally:
            if client is not None:
                client.close()
            end_process(process)
            end_processes_in(account.home / "data" / "agent")


def is_ready(client: Client) -> bool:
    try:
        conditions = [entry for node in client.list(NODES.path()).items for entry in node["status"]["conditions"]]
    except (ApiError, KeyError):
        return False
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def test_pods_run_end_and_are_limited(world: World, request: pytest.FixtureRequest) -> None:
    """Exit codes, daemons, memory; the shim that was meant, and everything as the user."""
    kind = request.node.callspec.params["world"]
    uid = world.submit("sleeper", "id -u; ulimit -d; sleep 600", resources={"limits": {"cpu": "1", "memory": "64Mi"}})
    world.phase("sleeper", "Running")
    shim = read_record(str(world.agent / "pods" / uid / SHIM))["pid"]
    assert (Path(f"/proc/{shim}/exe").readlink().name == NATIVE.name) is (kind == "native")
    assert os.stat(f"/proc/{shim}").st_uid == world.account.uid
    assert until(lambda: lines if len(lines := world.lines("sleeper")) == 2 else []) == [
        str(world.account.uid),
        str(64 << 10),
    ]

    world.submit("daemon", f"{LEAVES_A_DAEMON}; exit 5")
    status = world.phase("daemon", "Failed", "Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert start_ticks(int(world.lines("daemon")[0])) == 0

    big = {"limits": {"cpu": "1", "memory": "32Mi"}}
    world.submit("big", "head -c 200000000 /dev/zero | tail -c 200000000 | wc -c", resources=big)
    world.phase("big", "Succeeded", "Failed")
    assert "200000000" not in world.lines("big")

    world.client.delete(PODS.path("default", "sleeper"))
    until(lambda: not (world.agent / "pods" / uid).exists())
    assert start_ticks(shim) == 0
