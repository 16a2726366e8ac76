"""No cgroup outlives what it was made for: pods that have ended, and agents that were killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pumice.agent.cgroups import PREFIX, Cgroups, ContainerLimits, find_cgroups
from pumice.agent.node_agent import choose_cgroups
from pumice.agent.shim.cgroup_removal import remove_cgroups
from pumice.agent.shim.records import PLAN, SHIM, read_record
from tests.support.agents import AgentWorld, on_this_machine
from tests.support.processes import end_process, start_process

OTHER = f"left-{os.getpid()}"


def own_cgroups() -> Cgroups | None:
    return find_cgroups(f"test-{os.getpid()}-left")


def may_use_cgroups() -> bool:
    """Whether this process may write cgroups; leaves none."""
    found = own_cgroups()
    if found is not None:
        found.remove()
    return found is not None


pytestmark = pytest.mark.skipif(not may_use_cgroups(), reason="needs cgroups that can be written")


@pytest.fixture
def other() -> Iterator[Cgroups]:
    """Cgroups of another agent, which is alive."""
    found = find_cgroups(OTHER)
    assert found is not None and found.hold()
    yield found
    again = find_cgroups(OTHER)
    assert again is not None
    again.sweep(())
    again.remove()


def pod_folders(cgroups: Cgroups) -> list[Path]:
    """The folders of a new pod of an agent."""
    made = cgroups.create("pod", {"main": ContainerLimits()})
    return [Path(folder) for folder in made.folders if Path(folder).name == "pod-pod"]


def let_go(cgroups: Cgroups) -> None:
    """Give up the lock of an agent, as its death does; a pod that is there keeps the folders."""
    cgroups.remove()


def test_what_a_killed_agent_has_left_is_removed_at_the_next_start(other: Cgroups, tmp_path: Path) -> None:
    pods = pod_folders(other)
    assert all(pod.parent.name == f"{PREFIX}{OTHER}" and (pod / "main").is_dir() for pod in pods)
    let_go(other)
    mine = choose_cgroups("next", tmp_path)
    assert mine is not None
    mine.remove()
    assert not any(pod.parent.exists() for pod in pods)


def test_cgroups_of_agents_and_pods_that_live_stay(other: Cgroups, tmp_path: Path) -> None:
    """An agent holds a lock on its own; of one that was killed, the pods that still run keep theirs."""
    pods = pod_folders(other)
    mine = choose_cgroups("next", tmp_path)
    assert mine is not None
    assert all((pod / "main").is_dir() for pod in pods)
    process = start_process(["sleep", "600"])
    try:
        for pod in pods:
            (pod / "main" / "cgroup.procs").write_text(str(process.pid))
        let_go(other)
        mine.remove_abandoned()
        assert all((pod / "main").is_dir() for pod in pods)
    finally:
        end_process(process)
    mine.remove_abandoned()
    mine.remove()
    assert not any(pod.parent.exists() for pod in pods)


def test_cgroups_of_a_pod_go_when_it_ends(tmp_path: Path) -> None:
    """Its folder stays as long as the API has the pod, for the logs."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uid = await world.submit("one")
            await world.phase("one", "Succeeded")
            groups = read_record(str(world.folder / "pods" / uid / PLAN))["cgroups"]
            assert groups
            while any(map(os.path.exists, groups)):
                await asyncio.sleep(0.02)

    on_this_machine(tmp_path, check, cgroups=own_cgroups)


def test_a_pod_that_was_planned_by_a_killed_agent_starts_although_its_cgroups_are_gone(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uid = await world.submit("one", f"test -e {tmp_path}/go || exec sleep 600; echo again")
            await world.phase("one", "Running")
        folder = world.folder / "pods" / uid
        shim = read_record(str(folder / SHIM))["pid"]
        os.kill(shim, signal.SIGKILL)
        groups = read_record(str(folder / PLAN))["cgroups"]
        for name in folder.iterdir():  # as the agent leaves it that is killed between plan and start
            if name.name != PLAN:
                with suppress(IsADirectoryError):
                    name.unlink()
        while any(map(os.path.exists, groups)):
            remove_cgroups(groups)
            await asyncio.sleep(0.02)
        (tmp_path / "go").touch()
        async with world.agent():
            await world.phase("one", "Succeeded")
            assert (await world.log("one")).splitlines()[-1] == "again"

    on_this_machine(tmp_path, check, cgroups=own_cgroups)
