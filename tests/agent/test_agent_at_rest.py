"""What the agent of ``pumice up --here`` takes while nothing happens, and while a pod runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines import Machine

MOST_MEMORY = 30 << 20
"""Resident bytes; docs/performance.md has what it takes."""
SECONDS = 12.0
ENDED_PODS = 300
MOST_SWITCHES = 20
"""How often it may wake up in this time: for its lease, for its health, and a few times more on a busy machine."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("rest"))
    yield found
    found.end()


def status(pid: int, name: str) -> int:
    """A number in the status of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def awakenings(pid: int) -> int:
    """How often all threads of a process have gone to sleep."""
    return sum(status(int(task.name), "voluntary_ctxt_switches") for task in Path(f"/proc/{pid}/task").iterdir())


@pytest.mark.parametrize("work", ["none", "a pod"])
def test_an_agent_at_rest_is_small_and_sleeps(machine: Machine, work: str) -> None:
    """Also after it has run pods: what it needed for them is given back, although the API still has them."""
    if work == "a pod":
        machine.submit("before", f"echo seen # {'much to keep ' * 3000}", ENDED_PODS)
        machine.until(lambda: machine.phase("before") == "Completed")
        lines = machine.client.text_lines("/api/v1/namespaces/default/pods/before-main-0/log", {})
        assert list(lines) == [b"seen\n"]
        machine.submit("sleeper", "sleep 600", 1)
        machine.until(lambda: machine.phase("sleeper") == "Running")
    (pid,) = machine.pids("agent")
    time.sleep(6.0)  # soon after its start it gives memory back
    before = awakenings(pid)
    time.sleep(SECONDS)
    assert awakenings(pid) - before <= MOST_SWITCHES
    assert status(pid, "VmRSS") << 10 < MOST_MEMORY
    machine.clear()


def test_programs_of_the_machine_need_no_tls(machine: Machine) -> None:
    """The agent has not even loaded OpenSSL: it speaks over the socket in the data directory."""
    (pid,) = machine.pids("agent")
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "libssl" not in maps and "libcrypto" not in maps
    assert machine.client.access.endpoint == f"unix://{machine.data}/api.sock"
    for place in ("api.sock", "agent/logs.sock"):
        assert (machine.data / place).stat().st_mode & 0o777 == 0o600
