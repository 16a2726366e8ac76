"""The agent with real processes: the node, pods from start to end, logs, devices, restarts of the agent."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pumice.agent import pod_folders, pod_worker
from pumice.agent.cgroups import Cgroups, find_cgroups
from pumice.agent.pod_folders import PodFolders
from pumice.agent.shim.process_table import marked_processes, start_ticks
from pumice.agent.shim.records import PLAN, SHIM, STATE, read_record, write_record
from pumice.agent.shim.volume_mounts import may_mount
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import PODS
from tests.support.agents import CAPACITY, NODE, AgentWorld, on_this_machine, terminated

IGNORES_SIGTERM = "trap '' TERM; echo on; while :; do sleep 0.05; done"
GPU = {"limits": {"nvidia.com/gpu": "1"}}


def test_the_machine_is_a_node_with_a_lease(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            node = world.running.api.read("nodes", "", NODE) or {}
            assert {key: node["status"]["capacity"][key] for key in CAPACITY} == CAPACITY
            assert node["metadata"]["labels"]["pumice.dev/runtime"] == "process"
            ready = {entry["type"]: entry["status"] for entry in node["status"]["conditions"]}
            assert ready["Ready"] == "True"
            lease = world.running.api.read("leases.coordination.k8s.io", "kube-node-lease", NODE) or {}
            assert lease["spec"]["holderIdentity"] == NODE

    on_this_machine(tmp_path, check)


def test_a_pod_runs_and_its_exit_code_and_log_are_there(tmp_path: Path) -> None:
    """With the environment of the downward API, and no GPU for a pod that asks for none."""
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "WORDS", "value": "$(POD) is $$(POD)"},
    ]

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            script = "echo $WORDS; echo [$CUDA_VISIBLE_DEVICES]; pwd; exit 3"
            await world.submit("one", script, env=env, workingDir=str(tmp_path))
            status = await world.phase("one", "Failed")
            assert terminated(status)["exitCode"] == 3
            assert await world.log("one") == f"one is $(POD)\n[]\n{tmp_path}\n"
            assert await world.log("one", tailLines="1") == f"{tmp_path}\n"
            stamped = (await world.log("one", timestamps="true")).splitlines()[1]
            since = stamped.split(" ")[0]
            assert stamped.endswith("Z []")
            assert await world.log("one", sinceTime=since) == f"[]\n{tmp_path}\n"
            with pytest.raises(ApiError, match="previous terminated container"):
                await world.log("one", previous="true")

    on_this_machine(tmp_path, check)


def test_a_follower_gets_the_output_until_the_end(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            await world.submit("one", f"echo first; while ! test -e {tmp_path}/go; do sleep 0.02; done; echo last")
            await world.lines("one")
            following = asyncio.create_task(world.log("one", follow="true"))
            await asyncio.sleep(0.1)
            assert not following.done()
            (tmp_path / "go").touch()
            assert await following == "first\nlast\n"

    on_this_machine(tmp_path, check)


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount")
def test_volumes_are_folders_at_their_mount_paths(tmp_path: Path) -> None:
    """A ConfigMap that comes later, a Secret, an empty folder that containers share; the machine does not see them."""
    mounts = [
        {"name": "settings", "mountPath": f"{tmp_path}/in/settings", "readOnly": True},
        {"name": "key", "mountPath": f"{tmp_path}/in/key"},
        {"name": "shared", "mountPath": f"{tmp_path}/in/shared"},
    ]
    volumes = [
        {"name": "settings", "configMap": {"name": "late"}},
        {"name": "key", "secret": {"secretName": "key"}},
        {"name": "shared", "emptyDir": {}},
    ]
    first = {
        "name": "first",
        "image": "host",
        "command": ["sh", "-c", f"echo made > {tmp_path}/in/shared/file"],
        "volumeMounts": mounts,
    }

    async def check(world: AgentWorld) -> None:
        api = world.running.api
        await api.create("secrets", "default", {"metadata": {"name": "key"}, "stringData": {"k": "secret"}})
        async with world.agent():
            script = f"cd {tmp_path}/in; cat settings/rate key/k shared/file; touch settings/x || echo refused"
            spec = {"volumes": volumes, "initContainers": [first]}
            await world.submit("one", script, spec=spec, volumeMounts=mounts)
            waiting = await world.wait("one", lambda status: status.get("containerStatuses"))
            reason = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
            assert reason == {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
            await api.create("configmaps", "default", {"metadata": {"name": "late"}, "data": {"rate": "7\n"}})
            await world.phase("one", "Succeeded")
            assert (await world.log("one", container="main")).splitlines()[:2] == ["7", "secretmade"]
            assert "refused" in await world.log("one", container="main")
            assert list((tmp_path / "in" / "shared").iterdir()) == []

    on_this_machine(tmp_path, check)


def test_what_a_process_cannot_have_is_refused_with_an_event(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            await world.submit("ports", ports=[{"containerPort": 80}])
            await world.submit("privileged", securityContext={"privileged": True})
            await world.submit("entry", command=None)
            for name, words in (
                ("ports", "spec.containers[0].ports: a process has no ports of its own"),
                ("privileged", "spec.containers[0].securityContext.privileged: processes run as the user"),
                ("entry", "spec.containers[0].command: required, because images are not pulled"),
            ):
                status = await world.phase(name, "Failed")
                assert status["reason"] == "Unsupported"
                assert words in status["message"]
                conditions = {entry["type"]: entry for entry in status["conditions"]}
                for kind in ("Ready", "ContainersReady"):
                    assert (conditions[kind]["status"], conditions[kind]["reason"]) == ("False", "Unsupported")
                    assert words in conditions[kind]["message"]
            events = world.running.api.list("events")
            told = {event["involvedObject"]["name"] for event in events if event["reason"] == "Unsupported"}
            assert told == {"ports", "privileged", "entry"}

    on_this_machine(tmp_path, check)


def test_no_two_pods_share_a_gpu_also_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    """A third pod is refused while two have the GPUs; the next one gets what has become free, and no other."""

    async def check(world: AgentWorld) -> None:
        script = "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES; sleep 600"
        async with world.agent():
            for name in ("a", "b"):
                await world.submit(name, script, resources=GPU)
            held = {name: (await world.lines(name))[0] for name in ("a", "b")}
            assert sorted(held.values()) == ["0 0", "1 1"]
            await world.submit("c", script, resources=GPU)
            assert (await world.phase("c", "Failed"))["reason"] == "OutOfnvidia.com/gpu"
        async with world.agent():
            await world.submit("d", script, resources=GPU)
            assert (await world.phase("d", "Failed"))["reason"] == "OutOfnvidia.com/gpu"
            await world.running.api.delete("pods", "default", "a", grace=0)
            while PodFolders(world.folder / "pods").taken_devices("nvidia.com/gpu") != {held["b"][0]}:
                await asyncio.sleep(0.02)
            await world.submit("e", script, resources=GPU)
            assert await world.lines("e") == [held["a"]]

    on_this_machine(tmp_path, check)


def test_deletion_kills_after_the_grace_period(tmp_path: Path) -> None:
    """The pod is there until its last process has ended, and its folder goes with it."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uid = await world.submit("one", IGNORES_SIGTERM)
            await world.lines("one")
            assert marked_processes(uid)
            await world.running.api.delete("pods", "default", "one", grace=1)
            assert marked_processes(uid)
            await world.gone("one")
            assert not marked_processes(uid)
            while (world.folder / "pods" / uid).exists():
                await asyncio.sleep(0.02)

    on_this_machine(tmp_path, check)


@pytest.mark.parametrize("known", [True, False])
def test_a_shim_that_does_not_end_its_pod_is_killed(
    tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's file system may keep it from writing a copy of the output, and so from giving back what the pod has."""
    monkeypatch.setattr(pod_folders, "OVERDUE_SECONDS", 0.3)
    monkeypatch.setattr(pod_worker, "CHECK_SECONDS", 0.1)

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            spec = {"terminationGracePeriodSeconds": 1}
            uid = await world.submit("one", "echo on; sleep 600", resources=GPU, spec=spec)
            await world.lines("one")
            shim = read_record(str(world.folder / "pods" / uid / SHIM))
            os.kill(shim["pid"], signal.SIGSTOP)
            if known:
                await world.running.api.delete("pods", "default", "one", grace=1)
                await world.gone("one")
        if not known:
            await world.running.api.delete("pods", "default", "one", grace=0)
        async with world.agent():
            while (world.folder / "pods" / uid).exists():
                await asyncio.sleep(0.02)
            assert not marked_processes(uid)
            assert not start_ticks(shim["pid"])

    on_this_machine(tmp_path, check)


@pytest.mark.parametrize("present", [True, False])
def test_what_runs_of_a_pod_that_others_say_has_ended_is_ended(tmp_path: Path, present: bool) -> None:
    """Also if it was said while no agent was there; its room is free for others then."""

    async def check(world: AgentWorld) -> None:
        async def say_so() -> None:
            await world.api.patch_status(PODS.raw, "one", {"phase": "Failed"}, "default")

        async with world.agent():
            uid = await world.submit("one", "echo on; sleep 600", resources={"requests": {"cpu": "8"}})
            await world.lines("one")
            if present:
                await say_so()
                await gone(world, uid)
        if not present:
            await say_so()
        async with world.agent():
            await gone(world, uid)
            await world.submit("two", resources={"requests": {"cpu": "8"}})
            await world.phase("two", "Succeeded")
            assert await world.log("one") == "on\n"
            await world.running.api.delete("pods", "default", "one", grace=0)
            while (world.folder / "pods" / uid).exists():
                await asyncio.sleep(0.02)

    async def gone(world: AgentWorld, uid: str) -> None:
        while marked_processes(uid):
            await asyncio.sleep(0.02)

    on_this_machine(tmp_path, check)


def test_logs_and_folders_of_ended_pods_outlive_the_agent(tmp_path: Path) -> None:
    """They are read when somebody asks, and go when the pod is deleted, also while no agent was there."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uids = [await world.submit(name, f"echo {name}") for name in ("kept", "deleted")]
            for name in ("kept", "deleted"):
                await world.phase(name, "Succeeded")
                assert await world.log(name) == f"{name}\n"
        await world.running.api.delete("pods", "default", "deleted", grace=0)
        async with world.agent():
            while (world.folder / "pods" / uids[1]).exists():
                await asyncio.sleep(0.02)
            assert await world.log("kept") == "kept\n"
            await world.running.api.delete("pods", "default", "kept", grace=0)
            while (world.folder / "pods" / uids[0]).exists():
                await asyncio.sleep(0.02)

    on_this_machine(tmp_path, check)


def test_pods_go_on_without_the_agent_and_are_adopted(tmp_path: Path) -> None:
    """One still runs when the agent returns, one has ended meanwhile, one was deleted meanwhile."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            script = f"echo $$$$; while ! test -e {tmp_path}/go; do sleep 0.02; done; exit 4"
            for name in ("stays", "deleted"):
                await world.submit(name, script.replace("/go", f"/{name}"))
            await world.submit("ends", script)
            pids = {name: int((await world.lines(name))[0]) for name in ("stays", "deleted", "ends")}
        (tmp_path / "go").touch()
        while start_ticks(pids["ends"]):
            await asyncio.sleep(0.02)
        assert all(start_ticks(pids[name]) for name in ("stays", "deleted"))
        deleted = world.pod("deleted")["metadata"]["uid"]
        await world.running.api.delete("pods", "default", "deleted", grace=0)
        async with world.agent():
            assert terminated(await world.phase("ends", "Failed"))["exitCode"] == 4
            while start_ticks(pids["deleted"]) or (world.folder / "pods" / deleted).exists():
                await asyncio.sleep(0.02)
            assert start_ticks(pids["stays"])
            assert world.pod("stays")["status"]["phase"] == "Running"
            (tmp_path / "stays").touch()
            assert terminated(await world.phase("stays", "Failed"))["exitCode"] == 4

    on_this_machine(tmp_path, check)


def test_a_killed_shim_and_a_reboot_fail_the_pod_and_leave_no_process(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            lost = await world.submit("lost", "setsid sleep 600 & echo on; sleep 600")
            rebooted = await world.submit("rebooted", "echo on; sleep 600")
            for name in ("lost", "rebooted"):
                await world.lines(name)
            os.kill(read_record(str(world.folder / "pods" / lost / SHIM))["pid"], signal.SIGKILL)
            status = await world.phase("lost", "Failed")
            assert (status["reason"], terminated(status)["exitCode"]) == ("ShimLost", 137)
            assert not marked_processes(lost)
        path = str(world.folder / "pods" / rebooted / SHIM)
        shim = read_record(path)
        os.kill(shim["pid"], signal.SIGKILL)
        write_record(path, {**shim, "boot": "before"})
        async with world.agent():
            assert (await world.phase("rebooted", "Failed"))["reason"] == "NodeRebooted"

    on_this_machine(tmp_path, check)


def test_a_pod_is_not_started_again_after_a_reboot_that_took_the_shims_files(tmp_path: Path) -> None:
    """The plan is on disk before anything starts; the files of the shim may be gone, or half of them may."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uids = [await world.submit(name, f"echo on >> {tmp_path}/{name}; sleep 600") for name in ("gone", "half")]
            for name in ("gone", "half"):
                await world.phase(name, "Running")
        for uid, left in zip(uids, (None, b""), strict=True):
            folder = world.folder / "pods" / uid
            os.kill(read_record(str(folder / SHIM))["pid"], signal.SIGKILL)
            plan = read_record(str(folder / PLAN))
            write_record(str(folder / PLAN), {**plan, "boot": "before"})
            for name in (SHIM, STATE):
                (folder / name).unlink() if left is None else (folder / name).write_bytes(left)
        async with world.agent():
            for name in ("gone", "half"):
                assert (await world.phase(name, "Failed"))["reason"] == "NodeRebooted"
                assert (tmp_path / name).read_text() == "on\n"

    on_this_machine(tmp_path, check)


def test_room_is_free_before_the_api_has_answered_that_a_pod_has_ended(tmp_path: Path) -> None:
    """The scheduler may place the next pod as soon as the API has the end, before the agent has its answer."""

    async def check(world: AgentWorld) -> None:
        held = asyncio.Event()
        patch_status = world.api.patch_status

        async def answer_late(resource: Any, name: str, status: Any, *rest: Any, **more: Any) -> Any:
            answer = await patch_status(resource, name, status, *rest, **more)
            if status.get("phase") == "Succeeded":
                await held.wait()
            return answer

        whole = {"requests": {"cpu": "8"}}
        world.api.patch_status = answer_late  # type: ignore[method-assign]  # a slow API, for this test
        async with world.agent():
            await world.submit("first", "true", resources=whole)
            await world.phase("first", "Succeeded")
            await world.submit("second", "sleep 600", resources=whole)
            assert (await world.phase("second", "Running", "Failed"))["phase"] == "Running"
            held.set()

    on_this_machine(tmp_path, check)


def test_logs_need_the_token_of_the_agent(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            uid = await world.submit("one", "echo private")
            await world.phase("one", "Succeeded")
            node = world.running.api.read("nodes", "", NODE) or {}
            port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /containerLogs/default/one/main?uid={uid} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
            writer.close()

    on_this_machine(tmp_path, check)


def own_cgroups() -> Cgroups | None:
    return find_cgroups(f"test-{os.getpid()}")


def may_use_cgroups() -> bool:
    """Whether this process may write cgroups; leaves none."""
    found = own_cgroups()
    if found is not None:
        found.remove()
    return found is not None


@pytest.mark.skipif(not may_use_cgroups(), reason="needs cgroups that can be written")
def test_memory_beyond_the_limit_is_oom_killed(tmp_path: Path) -> None:
    """The pod shows it as Kubernetes does; its cgroups are removed with it."""

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            limits = {"limits": {"memory": "32Mi"}}
            await world.submit("one", "head -c 200000000 /dev/zero | tail -c 200000000", resources=limits)
            ended = terminated(await world.phase("one", "Failed"))
            assert ended["reason"] == "OOMKilled"

    on_this_machine(tmp_path, check, cgroups=own_cgroups)
    assert own_cgroups() is not None
    may_use_cgroups()


@pytest.mark.skipif(not may_use_cgroups(), reason="needs cgroups that can be written")
def test_pods_whose_folders_were_removed_are_ended_by_their_cgroups(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            await world.submit("one", "echo $$$$; sleep 600")
            pid = int((await world.lines("one"))[0])
        shutil.rmtree(world.folder / "pods")
        async with world.agent():
            while start_ticks(pid):
                await asyncio.sleep(0.02)
            assert (await world.phase("one", "Failed"))["reason"] == "StateLost"

    on_this_machine(tmp_path, check, cgroups=own_cgroups)


def test_logs_of_each_container_and_of_the_run_before(tmp_path: Path) -> None:
    """-c, --previous, --since, --tail and --timestamps together, on a pod whose first container was started again."""
    side = {"name": "side", "image": "host", "command": ["sh", "-c", "echo beside; sleep 600"]}

    async def check(world: AgentWorld) -> None:
        async with world.agent():
            script = f"test -e {tmp_path}/again && echo second && sleep 600; touch {tmp_path}/again; echo first; exit 5"
            main = {"name": "main", "image": "host", "command": ["sh", "-c", script]}
            await world.submit("two", spec={"restartPolicy": "OnFailure", "containers": [main, side]})
            while "restartCount" not in (found := main_status(world)) or not found["restartCount"]:
                await asyncio.sleep(0.02)
            while await world.log("two", container="main") != "second\n":
                await asyncio.sleep(0.02)
            assert await world.log("two", container="main", previous="true") == "first\n"
            assert await world.log("two", container="main", sinceSeconds="600", tailLines="5") == "second\n"
            assert await world.log("two", container="main", sinceTime="2100-01-01T00:00:00Z") == ""
            assert (await world.log("two", container="side", timestamps="true")).endswith("Z beside\n")
            with pytest.raises(ApiError, match="a container name must be specified"):
                await world.log("two")
            with pytest.raises(ApiError, match="container third is not valid"):
                await world.log("two", container="third")

    def main_status(world: AgentWorld) -> dict[str, Any]:
        entries = (world.pod("two").get("status") or {}).get("containerStatuses") or []
        return next((dict(entry) for entry in entries if entry["name"] == "main"), {})

    on_this_machine(tmp_path, check)
