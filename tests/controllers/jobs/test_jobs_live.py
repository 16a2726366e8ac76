"""Volcano Jobs on a cluster that runs: the embedded API, simulated nodes, the scheduler and the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.config.load import read_config
from pumice.controllers.jobs import JobController
from pumice.controllers.jobs.plugins import svc
from pumice.controllers.manager import ControllerManager
from pumice.controllers.registry import ALL_CONTROLLERS
from pumice.embedded.embedded_cluster import with_pumice
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.kube.resources import Resource
from pumice.scheduler import enqueue_conditions
from tests.support.kubectl import KUBECTL, run
from tests.support.live_cluster import GROUPS, eventually, scheduling

JOBS = "jobs.batch.volcano.sh"
COMMANDS = "commands.bus.volcano.sh"
SPEED = 20.0


@asynccontextmanager
async def controlling(server: str, makers: Sequence[Any]) -> AsyncIterator[None]:
    async with Session(Access(server)) as session:
        work = asyncio.create_task(ControllerManager(Api(session), makers).run())
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def live(
    place: Path,
    check: Callable[[RunningCluster], Awaitable[None]],
    makers: Sequence[Any] = (JobController,),
    config: str = "",
) -> None:
    async def run() -> None:
        wanted = make_nodes(2, parse_capacity("cpu=4,memory=64Gi"))
        settings = ServerSettings(data=None, kubeconfig=place / "kubeconfig", nodes=wanted, speed=SPEED)
        async with (
            running_cluster(with_pumice(settings)) as running,
            scheduling(running.server, read_config(config, "configuration") if config else None),
            controlling(running.server, makers),
            asyncio.timeout(60),
        ):
            await check(running)

    asyncio.run(run())


def task(name: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """A task whose pods run for a second of the cluster's time; annotations of its pods by ``run`` and ``fail``."""
    said = {"pumice.dev/run-seconds": str(more.pop("run", 1)), "pumice.dev/stop-seconds": "1"}
    if "fail" in more:
        said["pumice.dev/fail"] = more.pop("fail")
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": more.pop("restart", "Never"), "containers": [container]}
    template = {"metadata": {"annotations": said}, "spec": pod}
    return {"name": name, "replicas": replicas, "template": template, **more}


async def submit(running: RunningCluster, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
    document = {"metadata": {"name": name}, "spec": {"queue": "default", "tasks": list(tasks), **spec}}
    await running.api.create(JOBS, "default", document)


def job(running: RunningCluster, name: str) -> dict[str, Any]:
    return running.api.read(JOBS, "default", name) or {}


def status(running: RunningCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = job(running, name).get("status") or {}
    return found


def phase(running: RunningCluster, name: str) -> str:
    return str((status(running, name).get("state") or {}).get("phase", ""))


def pods(running: RunningCluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in running.api.list("pods")}


def past(running: RunningCluster, name: str) -> list[str]:
    return [entry["status"] for entry in status(running, name)["conditions"]]


async def command(running: RunningCluster, action: str, name: str) -> None:
    target = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": job(running, name)["metadata"]["uid"],
    }
    about = {"name": f"{name}-{action.lower()}"}
    await running.api.create(COMMANDS, "default", {"metadata": about, "action": action, "target": target})


def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "sums", task("ps"), task("worker", 3), minAvailable=4)
        await eventually(lambda: phase(running, "sums") == "Completed")
        found = status(running, "sums")
        assert (found["succeeded"], found["failed"], found["running"], found["pending"]) == (4, 0, 0, 0)
        assert found["taskStatusCount"]["worker"] == {"phase": {"Succeeded": 3}}
        assert past(running, "sums") == ["Pending", "Running", "Completed"]
        assert set(pods(running)) == {"sums-ps-0", "sums-worker-0", "sums-worker-1", "sums-worker-2"}
        (group,) = running.api.list(GROUPS)
        about = job(running, "sums")["metadata"]
        assert group["metadata"]["name"] == f"sums-{about['uid']}"
        assert group["spec"] == {"minMember": 4, "queue": "default", "minResources": {"cpu": "4"}}
        revision = job(running, "sums")["metadata"]["resourceVersion"]
        await asyncio.sleep(0.5)
        assert job(running, "sums")["metadata"]["resourceVersion"] == revision  # it has settled
        await running.api.delete(JOBS, "default", "sums", propagation="Background")
        await eventually(lambda: not running.api.list(GROUPS) and not pods(running))

    live(tmp_path, check)


def test_a_job_that_fails_is_restarted_as_often_as_it_may(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        on_failure = [{"event": "PodFailed", "action": "RestartJob"}]
        await submit(running, "bad", task("good", run=100), task("bad", fail="3"), policies=on_failure, maxRetry=3)
        await eventually(lambda: phase(running, "bad") == "Failed")
        found = status(running, "bad")
        # Three runs: the first, and two restarts. The third restart is the failure.
        assert (found["retryCount"], found["version"]) == (3, 2)
        assert found["state"]["reason"] == "MaxRetry" and "exit code 3" in found["state"]["message"]
        assert past(running, "bad").count("Restarting") == 2 and past(running, "bad")[-1] == "Failed"
        # What ended stays for people to look into; what ran is stopped, and its group goes.
        await eventually(lambda: pods(running) == {"bad-bad-0": "Failed"} and not running.api.list(GROUPS))
        await eventually(
            lambda: {event["reason"] for event in running.api.list("events")} >= {"ExecuteAction", "MaxRetry"}
        )

    live(tmp_path, check)


def test_a_complete_task_completes_the_job(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        await submit(running, "mpi", task("master", policies=done), task("worker", 2, run=1000))
        await eventually(lambda: phase(running, "mpi") == "Completed")
        assert past(running, "mpi")[-2:] == ["Completing", "Completed"]
        assert pods(running) == {"mpi-master-0": "Succeeded"}

    live(tmp_path, check)


def test_a_task_waits_for_another(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        after = {"name": ["first"]}
        await submit(running, "steps", task("first", 2, run=20), task("second", 2, dependsOn=after))
        # It is made before any pod, and is larger as soon as the first two run.
        await eventually(lambda: [group["spec"]["minMember"] for group in running.api.list(GROUPS)] == [2])
        (group,) = running.api.list(GROUPS)
        assert group["spec"]["minResources"] == {"cpu": "2"}
        await eventually(lambda: phase(running, "steps") == "Completed")
        (group,) = running.api.list(GROUPS)
        assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (4, {"cpu": "4"})
        started = {pod["metadata"]["name"]: pod["status"]["startTime"] for pod in running.api.list("pods")}
        assert max(started["steps-first-0"], started["steps-first-1"]) <= min(
            started["steps-second-0"], started["steps-second-1"]
        )

    live(tmp_path, check)


def test_commands_stop_a_job_and_let_it_go_on(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "long", task("worker", 2, run=1000))
        await eventually(lambda: phase(running, "long") == "Running")
        await command(running, "AbortJob", "long")
        await eventually(lambda: phase(running, "long") == "Aborted")
        await eventually(lambda: not running.api.list(GROUPS) and not pods(running))
        assert not running.api.list(COMMANDS)
        await command(running, "ResumeJob", "long")
        await eventually(lambda: phase(running, "long") == "Running")
        found = status(running, "long")
        assert (found["version"], found["retryCount"], found["running"]) == (1, 0, 2)
        await command(running, "RestartJob", "long")
        await eventually(lambda: phase(running, "long") == "Running" and status(running, "long")["version"] == 2)
        await command(running, "TerminateJob", "long")
        await eventually(lambda: phase(running, "long") == "Terminated")
        await command(running, "ResumeJob", "long")
        await eventually(lambda: not running.api.list(COMMANDS))
        assert phase(running, "long") == "Terminated"
        await eventually(lambda: "CommandIgnored" in {event["reason"] for event in running.api.list("events")})

    live(tmp_path, check)


def test_enough_successes_complete_a_job_which_then_goes_by_itself(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        tasks = task("quick", 2), task("slow", 2, run=1000)
        await submit(running, "some", *tasks, minSuccess=2, ttlSecondsAfterFinished=2)  # from a whole second on
        await eventually(lambda: phase(running, "some") == "Completed")
        assert status(running, "some")["succeeded"] == 2
        await eventually(lambda: not job(running, "some") and not pods(running) and not running.api.list(GROUPS))

    live(tmp_path, check)


def test_a_job_grows_and_shrinks(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "elastic", task("worker", 2, run=1000), minAvailable=1, plugins={"svc": [], "ssh": []})
        await eventually(lambda: status(running, "elastic").get("running") == 2)

        async def scale(replicas: int) -> None:
            def edit(document: dict[str, Any]) -> None:
                document["spec"]["tasks"][0]["replicas"] = replicas

            await running.api.modify(JOBS, "default", "elastic", edit)

        hosts = running.api.read("configmaps", "default", "elastic-svc") or {}
        assert hosts["data"]["VC_WORKER_HOSTS"] == "elastic-worker-0.elastic,elastic-worker-1.elastic"
        await scale(4)
        await eventually(lambda: status(running, "elastic").get("running") == 4)
        await scale(1)
        await eventually(lambda: set(pods(running)) == {"elastic-worker-0"})
        hosts = running.api.read("configmaps", "default", "elastic-svc") or {}
        assert hosts["data"]["VC_WORKER_NUM"] == "1"
        assert phase(running, "elastic") == "Running" and status(running, "elastic")["version"] == 0
        assert running.api.read("services", "default", "elastic") is not None
        assert "PluginError" not in {event["reason"] for event in running.api.list("events")}

    live(tmp_path, check)


def test_a_job_starts_where_enqueue_is_not_configured(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "direct", task("worker", 2))
        await eventually(lambda: phase(running, "direct") == "Completed")

    config = "actions: allocate, backfill, reclaim, preempt\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
    live(tmp_path, check, config=config)


def test_a_job_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        large = task("worker")
        large["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5"
        await submit(running, "large", large)

        def said() -> list[dict[str, Any]]:
            return [event for event in running.api.list("events") if event["reason"] == "PodGroupPending"]

        # Until its pod has been created it waits for that.
        await eventually(lambda: any("its tasks (cpu 5) would fit no node" in event["message"] for event in said()))
        (group,) = running.api.list(GROUPS)
        text = f"PodGroup {group['metadata']['name']} cannot start: {group['status']['conditions'][0]['message']}"
        assert text in {event["message"] for event in said()}
        assert {event["involvedObject"]["uid"] for event in said()} == {job(running, "large")["metadata"]["uid"]}
        assert {event["type"] for event in said()} == {"Warning"}

    live(tmp_path, check)


def test_a_job_that_is_not_admitted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"FIRST_CHECK": 0.2, "TICK": 0.05, "CHECK_AGAIN": 0.1}.items():
        monkeypatch.setattr(enqueue_conditions, name, seconds)

    async def check(running: RunningCluster) -> None:
        small = {"metadata": {"name": "small"}, "spec": {"weight": 1, "capability": {"cpu": "3"}}}
        await running.api.create("queues.scheduling.volcano.sh", "", small)
        await submit(running, "first", task("worker", 2, run=1000), queue="small")
        await eventually(lambda: phase(running, "first") == "Running")
        await submit(running, "second", task("worker", 2, run=1000), queue="small")

        def said() -> list[tuple[str, str]]:
            found = [event for event in running.api.list("events") if event["reason"] == "PodGroupPending"]
            return [(event["involvedObject"]["name"], event["message"]) for event in found]

        await eventually(lambda: bool(said()))
        ((name, message),) = said()
        group = next(each for each in running.api.list(GROUPS) if each["metadata"]["name"].startswith("second-"))
        (condition,) = group["status"]["conditions"]
        assert (name, phase(running, "second")) == ("second", "Pending") and len(pods(running)) == 2
        assert message == f"PodGroup {group['metadata']['name']} cannot start: {condition['message']}"
        assert condition["message"].startswith("The job is not admitted to queue root/small: ")

    live(tmp_path, check)


def test_a_job_scales_to_zero_and_back(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await submit(running, "nap", task("worker", 2, run=1000))
        await eventually(lambda: phase(running, "nap") == "Running")

        async def scale(replicas: int) -> None:
            def edit(document: dict[str, Any]) -> None:
                document["spec"]["tasks"][0]["replicas"] = document["spec"]["minAvailable"] = replicas

            await running.api.modify(JOBS, "default", "nap", edit)

        await scale(0)
        await eventually(lambda: not pods(running))
        (group,) = running.api.list(GROUPS)
        assert phase(running, "nap") == "Running" and group["spec"]["minMember"] == 0
        await scale(2)
        await eventually(lambda: list(pods(running).values()) == ["Running"] * 2)
        await eventually(lambda: running.api.list(GROUPS)[0]["status"]["phase"] == "Running")

    live(tmp_path, check)


def test_a_podgroup_runs_while_a_member_terminates_and_no_longer(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        seen: list[str] = []

        def group_phase() -> str:
            (group,) = running.api.list(GROUPS)
            found = str((group.get("status") or {}).get("phase", ""))
            if found != (seen or [""])[-1]:
                seen.append(found)
            return found

        bare = {"metadata": {"name": "pair"}, "spec": {"minMember": 2, "queue": "default"}}
        await running.api.create(GROUPS, "default", bare)
        for name in ("a", "b"):
            template = task("", run=1000)["template"]
            about = {"name": name, "annotations": {"scheduling.k8s.io/group-name": "pair"}}
            about["annotations"] |= {**template["metadata"]["annotations"], "pumice.dev/stop-seconds": "20"}
            spec = {**template["spec"], "schedulerName": "volcano"}
            await running.api.create("pods", "default", {"metadata": about, "spec": spec})
        await eventually(lambda: group_phase() == "Running")
        seen.clear()
        await running.api.delete("pods", "default", "a")
        assert running.api.read("pods", "default", "a") is not None  # it terminates for a second of real time
        await eventually(lambda: (group_phase(), running.api.read("pods", "default", "a"))[1] is None)
        await eventually(lambda: group_phase() == "Unknown")
        await asyncio.sleep(0.5)
        group_phase()
        assert seen == ["Running", "Unknown"]

    live(tmp_path, check)


def test_a_command_for_no_job_goes(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        for number, name in enumerate(("gone", "not/a-name", "../jobs")):
            target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": "x"}
            about = {"name": f"stop-{number}"}
            await running.api.create(COMMANDS, "default", {"metadata": about, "action": "AbortJob", "target": target})
        await eventually(lambda: not running.api.list(COMMANDS))
        events = [event for event in running.api.list("events") if event["reason"] == "CommandFailed"]
        assert {(event["involvedObject"]["name"], event["message"]) for event in events} == {
            ("stop-0", "Command AbortJob failed: job 'gone' not found"),
            ("stop-1", "Command AbortJob failed: job 'not/a-name' not found"),
            ("stop-2", "Command AbortJob failed: job '../jobs' not found"),
        }

    live(tmp_path, check)


def test_a_place_that_is_taken_is_said_and_waited_for(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        other = {"metadata": {"name": "sums-t-0"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        await running.api.create("pods", "default", other)
        await submit(running, "sums", task("t", 2, run=1000), minAvailable=1)
        await eventually(lambda: any(e["reason"] == "FailedCreate" for e in running.api.list("events")))
        said = [e["message"] for e in running.api.list("events") if e["reason"] == "FailedCreate"]
        assert said == [
            (
                "Failed to create Pod sums-t-0: an object of that name exists and does not belong to this "
                "job; delete it or rename the job"
            )
        ]
        await running.api.delete("pods", "default", "sums-t-0", grace=0)
        await eventually(lambda: status(running, "sums").get("running") == 2)

    live(tmp_path, check)


def test_job_creates_its_claims_and_its_pods_wait_for_them(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        asks = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        await submit(running, "sums", task("t", 3, run=1000), volumes=[{"mountPath": "/out", "volumeClaim": asks}])
        await eventually(lambda: status(running, "sums").get("running") == 3)
        claim = running.api.read("persistentvolumeclaims", "default", "sums-volume-0") or {}
        assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "standard")
        assert claim["metadata"]["ownerReferences"][0]["name"] == "sums"
        await running.api.delete(JOBS, "default", "sums")
        await eventually(lambda: not running.api.list("persistentvolumes"))  # deleted with its claim

    live(tmp_path, check)


def test_claim_that_is_refused_is_named_in_an_event_and_in_the_state_of_the_job(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        asks = {"accessModes": ["Any"], "resources": {"requests": {"storage": "1Gi"}}}
        await submit(running, "sums", task("t", run=1000), volumes=[{"mountPath": "/out", "volumeClaim": asks}])
        await eventually(lambda: status(running, "sums").get("state", {}).get("reason") == "PVCError")
        message = status(running, "sums")["state"]["message"]
        assert message.startswith("Failed to create PersistentVolumeClaim sums-volume-0: ")
        assert "Unsupported value" in message
        said = [e["message"] for e in running.api.list("events") if e["reason"] == "PVCError"]
        assert said == [message]
        assert not running.api.list("pods")

    live(tmp_path, check)


def test_objects_of_plugins_come_and_go_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has no such Services: the job says so and runs."""
    monkeypatch.setattr(svc, "SERVICES", Resource("example.com/v1", "services", "Service", dict))

    async def check(running: RunningCluster) -> None:
        api = running.api
        await submit(running, "mpi", task("master", run=1000), task("worker", 2, run=1000), plugins={"mpi": []})
        await eventually(lambda: phase(running, "mpi") == "Running")
        secret = api.read("secrets", "default", "mpi-ssh") or {}
        assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
        assert api.read("networkpolicies.networking.k8s.io", "default", "mpi") is not None
        assert api.read("configmaps", "default", "mpi-svc") is not None
        said = [e["message"] for e in api.list("events") if e["reason"] == "PluginError"]
        assert said == [
            "Failed to create Service mpi, the job runs without it: the API server has no services.example.com"
        ]
        await command(running, "RestartJob", "mpi")
        await eventually(lambda: status(running, "mpi").get("version") == 1 and phase(running, "mpi") == "Running")
        assert (api.read("secrets", "default", "mpi-ssh") or {})["data"] == secret["data"]
        await api.delete(JOBS, "default", "mpi")
        await eventually(lambda: api.read("secrets", "default", "mpi-ssh") is None)
        await eventually(lambda: api.read("networkpolicies.networking.k8s.io", "default", "mpi") is None)

    live(tmp_path, check)


def test_hosts_are_kept_in_an_object_of_the_job_alone(tmp_path: Path) -> None:
    """A ConfigMap of that name may be somebody's own, or left over from an earlier job until that is cleared away."""

    async def check(running: RunningCluster) -> None:
        api, before = running.api, {"x": "y"}
        await api.create("configmaps", "default", {"metadata": {"name": "mine-svc"}, "data": before})
        reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}
        earlier = {"ownerReferences": [{**reference, "name": "again", "uid": "earlier"}]}
        await api.create("configmaps", "default", {"metadata": {"name": "again-svc", **earlier}, "data": before})
        for name in ("mine", "again"):
            await submit(running, name, task("t", run=1000), plugins={"svc": []})
            await eventually(lambda name=name: phase(running, name) == "Running")  # type: ignore[misc] # a lambda
        assert (api.read("configmaps", "default", "mine-svc") or {})["data"] == before
        said = [e["message"] for e in api.list("events") if e["reason"] == "FailedCreate"]
        assert said == [
            (
                "Failed to create ConfigMap mine-svc: an object of that name exists and does not belong to "
                "this job; delete it or rename the job"
            )
        ]
        await eventually(lambda: "t.host" in (api.read("configmaps", "default", "again-svc") or {}).get("data", {}))

    live(tmp_path, check)


def test_evicted_pod_is_recreated_or_triggers_pod_evicted_policy(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        restart = [{"event": "PodEvicted", "action": "RestartTask"}]
        await submit(running, "plain", task("worker", 2, run=1000))
        await submit(running, "strict", task("worker", 2, run=1000, policies=restart), task("other", run=1000))
        await eventually(lambda: sum(status(running, name).get("running", 0) for name in ("plain", "strict")) == 5)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.api.list("pods")}
        for name in ("plain-worker-0", "strict-worker-0"):
            await running.api.delete("pods", "default", name)

        def renewed() -> set[str]:
            there = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.api.list("pods")}
            return {name for name, uid in there.items() if uid != before[name]} if len(there) == 5 else set()

        await eventually(lambda: renewed() == {"plain-worker-0", "strict-worker-0", "strict-worker-1"})
        await eventually(lambda: sum(status(running, name).get("running", 0) for name in ("plain", "strict")) == 5)
        assert (status(running, "plain")["retryCount"], status(running, "strict")["retryCount"]) == (0, 1)
        await asyncio.sleep(0.3)
        assert renewed() == {"plain-worker-0", "strict-worker-0", "strict-worker-1"}

    live(tmp_path, check)


def test_a_job_that_cannot_start_in_time_is_stopped(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        soon, late = ([{"event": "PodPending", "action": "AbortJob", "timeout": time}] for time in ("1s", "30s"))
        await submit(running, "huge", task("worker", 9, run=1000), policies=soon)
        await submit(running, "small", task("worker", 1, run=30), policies=late)
        await eventually(lambda: phase(running, "huge") == "Aborted" and phase(running, "small") == "Completed")
        assert status(running, "huge")["state"]["reason"] == "PodPending"

    live(tmp_path, check)


MANIFEST = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: test
spec:
  weight: 1
  reclaimable: false
  capability:
    cpu: 4
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: job-1
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: test
  maxRetry: 5
  plugins:
    env: []
    ssh: []
    svc: []
  policies:
    - event: PodEvicted
      action: RestartJob
    - event: PodFailed
      action: RestartJob
  tasks:
    - replicas: 1
      name: master
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        metadata:
          annotations:
            pumice.dev/run-seconds: "2"
        spec:
          containers:
            - command: [sleep, 10s]
              image: nginx:latest
              name: nginx
              resources:
                requests: {cpu: 1}
                limits: {cpu: 1}
          restartPolicy: OnFailure
    - replicas: 2
      name: worker
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - image: nginx:latest
              name: nginx
              resources:
                requests: {cpu: 1}
          restartPolicy: OnFailure
"""


@pytest.mark.skipif(not KUBECTL, reason="no kubectl here")
def test_a_manifest_written_for_volcano_runs_unchanged(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async def kubectl(*arguments: str, given: str = "") -> str:
            code, said = await asyncio.to_thread(run, tmp_path / "kubeconfig", *arguments, given=given)
            assert code == 0, said
            return said

        await kubectl("apply", "-f", "-", given=MANIFEST)
        await eventually(lambda: phase(running, "job-1") == "Completed")
        # The master succeeded, so the job is complete, and the workers, which never end by themselves, are stopped.
        assert past(running, "job-1")[-2:] == ["Completing", "Completed"]
        assert pods(running) == {"job-1-master-0": "Succeeded"}
        assert status(running, "job-1")["retryCount"] == 0
        said = await kubectl("get", "vcjob", "job-1")
        assert said.splitlines()[1].split()[:5] == ["job-1", "Completed", "3", "0", "test"]
        (pod,) = running.api.list("pods")
        assert {entry["name"] for entry in pod["spec"]["containers"][0]["env"]} >= {"VC_TASK_INDEX", "VC_WORKER_HOSTS"}

    live(tmp_path, check, ALL_CONTROLLERS)


def test_controllers_that_die_all_the_time_lose_nothing(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async def die() -> None:
            while True:
                async with controlling(running.server, (JobController,)):
                    await asyncio.sleep(0.15)

        dying = asyncio.create_task(die())
        restart = [{"event": "PodFailed", "action": "RestartJob"}]
        await submit(running, "bad", task("worker", 2, fail="1"), policies=restart, maxRetry=3)
        await submit(running, "good", task("a", 2), task("b", 1, dependsOn={"name": ["a"]}), plugins={"svc": []})
        await submit(running, "long", task("worker", run=1000))
        await eventually(lambda: phase(running, "long") == "Running")
        await command(running, "AbortJob", "long")
        await eventually(lambda: phase(running, "long") == "Aborted")
        await command(running, "ResumeJob", "long")
        await eventually(lambda: phase(running, "bad") == "Failed" and phase(running, "good") == "Completed")
        await eventually(lambda: phase(running, "long") == "Running")
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        assert (status(running, "bad")["retryCount"], status(running, "bad")["version"]) == (3, 2)
        assert (status(running, "long")["retryCount"], status(running, "long")["version"]) == (0, 1)
        assert not running.api.list(COMMANDS)

    live(tmp_path, check, ())


def test_a_job_says_which_container_cannot_start(tmp_path: Path) -> None:
    # The simulated kubelet refuses a pod whose annotation it cannot read.
    async def check(running: RunningCluster) -> None:
        await submit(running, "j", task("good", run=1000), task("bad", run="soon"))

        def state() -> dict[str, Any]:
            return dict(status(running, "j").get("state") or {})

        await eventually(lambda: state().get("reason") == "ContainersBlocked")
        message = "1 of 2 running pods cannot start its container: pod j-bad-0, container c: CreateContainerConfigError"
        await eventually(lambda: state()["message"] == message)

    live(tmp_path, check)
