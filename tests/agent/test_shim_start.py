"""Shims are forked from a server that has their code: what they inherit, and what a kill of the server leaves.

Every test runs with the server in Python and with the compiled one (``tests/agent/conftest.py``).
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pumice.agent.shim.process_table import start_ticks
from pumice.agent.shim_start import ForkServerProcess, ShimStarter, ShimStartError, server_commands
from tests.support.shims import ShimmedPod, container

SECONDS = 20.0


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def signal_sets(pid: int) -> dict[str, int]:
    """Blocked and ignored signals; those that the C library keeps for itself do not count, and make ignores these."""
    settable = sum(1 << (sign - 1) for sign in signal.valid_signals())
    lines = (line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(value, 16) & settable for name, value in lines if name in ("SigBlk", "SigIgn")}


def test_a_shim_has_nothing_of_the_server_but_its_code(tmp_path: Path) -> None:
    """Its own session, no terminal, no socket of the agent, its own name, default signals for its processes."""
    pod = ShimmedPod(tmp_path / "a", container("main", "sleep", "600"))
    server = ForkServerProcess(server_commands()[0])
    try:
        server.channel.settimeout(SECONDS)
        server.channel.send(os.fsencode(pod.folder))
        assert server.channel.recv(4096) == b"+" + os.fsencode(pod.folder)
        pid = pod.shim_pid
        assert os.getsid(pid) == pid and os.readlink(f"/proc/{pid}/cwd") == "/"
        assert parent_of(pid) == server.process.pid
        words = Path(f"/proc/{pid}/cmdline").read_bytes().strip(b"\0").split(b"\0")
        assert words == [b"pumice-shim", os.fsencode(pod.folder)]
        pod.wait(lambda record: record["phase"] == "Running")
        opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
        assert not [target for target in opened if target.startswith("socket:")]
        first = pod.record["containers"][0]["run"]
        assert first is not None
        assert signal_sets(first["pid"]) == {"SigBlk": 0, "SigIgn": 0}
        server.process.kill()
        server.process.wait()
        assert start_ticks(pid) and parent_of(pid) != server.process.pid
        pod.stop(0.0)
        assert pod.wait_finished()["phase"] == "Failed"
    finally:
        server.close()
        pod.end()


def test_a_killed_server_is_replaced_and_no_pod_runs_twice(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    pods = [ShimmedPod(tmp_path / name, container("main", "sh", "-c", f"echo {name} >> {notes}")) for name in "abc"]

    async def start() -> None:
        starter = ShimStarter()
        try:
            await starter.start(pods[0].folder)
            await starter.start(pods[0].folder)  # there is or was one
            server = starter.servers[0].server
            assert server is not None
            os.kill(server.process.pid, signal.SIGSTOP)
            waiting = [asyncio.create_task(starter.start(pod.folder)) for pod in pods[1:]]
            await asyncio.sleep(0)
            os.kill(server.process.pid, signal.SIGKILL)
            await asyncio.gather(*waiting)
            assert starter.servers[0].server is not server
        finally:
            starter.close()

    try:
        asyncio.run(start())
        for pod in pods:
            assert pod.wait_finished()["phase"] == "Succeeded"
        assert sorted(notes.read_text().split()) == ["a", "b", "c"]
    finally:
        for pod in pods:
            pod.end()


def test_a_shim_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    async def start() -> None:
        starter = ShimStarter()
        try:
            with pytest.raises(ShimStartError):
                await starter.start(tmp_path / "nowhere")
        finally:
            starter.close()

    asyncio.run(start())
