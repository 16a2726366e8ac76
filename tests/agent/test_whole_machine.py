"""``pumice up --here`` as processes: who may use its port, gangs, shares of queues, kills at random moments."""

from __future__ import annotations

import os
import random
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from pumice.agent.cgroups import find_cgroups
from pumice.agent.shim.process_table import marked_processes
from pumice.kube.resources import PODS, QUEUES
from tests.support.machines import Machine

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KILLS = 12


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("machine"))
    yield found
    found.end()


@pytest.fixture(autouse=True)
def _no_jobs_are_left(machine: Machine) -> Iterator[None]:
    yield
    machine.clear()


def test_the_port_wants_a_token(machine: Machine) -> None:
    """Whoever can connect, another user or a web page, is refused; the folder is for its owner alone."""
    server = machine.client.access.server
    assert server.startswith("https://")
    trusting = ssl._create_unverified_context()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Origin": "http://example.com"}):
        request = urllib.request.Request(f"{server}/api/v1/pods", headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, context=trusting)
        assert refused.value.code == 401
        refused.value.close()
    assert machine.data.stat().st_mode & 0o077 == 0


def test_gangs_start_together(machine: Machine) -> None:
    """Each member waits for all of its gang: three gangs that do not fit together would wait forever half started."""
    script = (
        "mkdir -p {here}; touch {here}/$HOSTNAME; while [ $(ls {here} | wc -l) -lt 3 ]; do sleep 0.05; done; sleep 0.5"
    )
    for name in ("a", "b", "c"):
        machine.submit(name, script.format(here=machine.folder / f"gang-{name}"), 3, least=3)
    machine.until(lambda: all(machine.phase(name) == "Completed" for name in ("a", "b", "c")))


def test_two_queues_share_three_to_one(machine: Machine) -> None:
    """Endless jobs of one slot and random length: time-averaged shares of the slots in use are those of the weights."""
    for name, weight in (("three", 3), ("one", 1)):
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
        machine.client.create(QUEUES.path(), {**queue, "spec": {"weight": weight, "parent": "root"}})
        machine.submit(name, "sleep $((2 + $(od -An -N1 -tu1 /dev/urandom) % 4))", 80, queue=name)

    def look() -> dict[str, int]:
        """How many slots each queue has."""
        held = {"three": 0, "one": 0}
        for pod in machine.pods():
            if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") in {"Pending", "Running"}:
                held[pod["metadata"]["labels"]["volcano.sh/job-name"]] += 1
        return held

    machine.until(lambda: look() == {"three": 3, "one": 1})
    total = {"three": 0.0, "one": 0.0}
    until = last = time.monotonic()
    until += 60.0
    while last < until:
        held = look()
        time.sleep(0.2)
        now = time.monotonic()
        for name, count in held.items():
            total[name] += count * (now - last)
        last = now
    share = total["three"] / (total["three"] + total["one"])
    assert 0.73 <= share <= 0.77, total


def test_kills_at_random_moments_lose_nothing(machine: Machine) -> None:
    """Every process runs once, every exit code is the one that the API shows, and none is left at the end."""
    rng = random.Random(20)
    codes = {number: rng.randrange(1, 100) for number in range(24)}
    for number, code in codes.items():
        script = f"echo x >> {machine.folder}/ran-{number}; sleep {rng.uniform(1, 4):.1f}; exit {code}"
        machine.submit(f"job-{number}", script, 1)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.2, 2.0))
        victims = rng.choice([("agent",), ("up",), ("scheduler",), ("agent", "up"), ("agent", "scheduler")])
        machine.kill(*victims)

    def ended() -> bool:
        return all(machine.phase(f"job-{number}") == "Failed" for number in codes)

    machine.until(ended)
    for number, code in codes.items():
        pod = machine.client.get(PODS.path("default", f"job-{number}-main-0"))
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
        assert (machine.folder / f"ran-{number}").read_text() == "x\n"


HOSTILE = {
    "bomb": "bomb() { bomb | bomb & }; bomb; wait; sleep 600",
    "output": "head -c 100000000 /dev/zero | tr '\\0' x | fold -w 1000",
    "memory": "head -c 2000000000 /dev/zero | tail -c 2000000000",
    "daemon": "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP; sleep 600' & done; sleep 0.2",
}


def test_hostile_pods_are_contained(machine: Machine) -> None:
    """A fork bomb, endless output, endless memory, daemons: each ends, and a good pod beside them is not disturbed."""
    probe = find_cgroups(f"test-{os.getpid()}")
    if probe is None:
        pytest.skip("needs cgroups that can be written")
    probe.remove()
    limits = {"memory": "128Mi", "cpu": "500m"}
    for name, script in HOSTILE.items():
        machine.submit(name, script, 1, limits=limits)
    machine.until(
        lambda: all(machine.phase(name) in {"Completed", "Failed"} for name in ("output", "daemon", "memory"))
    )
    pods = {pod["metadata"]["labels"]["volcano.sh/job-name"]: pod for pod in machine.pods()}
    ends = {name: pod["status"]["containerStatuses"][0]["state"].get("terminated", {}) for name, pod in pods.items()}
    assert ends["memory"]["reason"] == "OOMKilled"
    assert ends["output"]["exitCode"] == 0
    logs = machine.data / "agent" / "pods" / pods["output"]["metadata"]["uid"] / "logs" / "main"
    assert sum(file.stat().st_size for file in logs.iterdir()) <= 5 * (10 << 20)
    machine.submit("good", "exit 0", 1)
    machine.until(lambda: machine.phase("good") == "Completed")
    uids = [pod["metadata"]["uid"] for pod in pods.values()]
    machine.clear()
    machine.until(lambda: not any(map(marked_processes, uids)))
