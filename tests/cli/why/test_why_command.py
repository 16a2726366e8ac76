"""``pumice why``: on a live cluster, with its scheduler and controllers, and on scenarios."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.why.cluster_snapshot import WATCHED_RESOURCES
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from tests.cli.command import EXAMPLES, pumice_command
from tests.support.api_servers import pumice_up

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
POD = {"apiVersion": "v1", "kind": "Pod"}
GROUP = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def pod_spec(cpu: int) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}]
    return {"schedulerName": "pumice", "restartPolicy": "Never", "containers": containers}


def submit(client: Client, name: str, tasks: int, *, least: int = 1) -> None:
    spec = {"minMember": least, "queue": "default"}
    client.create(GROUPS, {**GROUP, "metadata": {"name": name}, "spec": spec})
    for number in range(tasks):
        about = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        client.create(PODS, {**POD, "metadata": about, "spec": pod_spec(1)})


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Client, Path]]:
    """A node of 4 cpu that a job fills; a gang of 4, entitled to 2 of them, waits; and a batch Job never fits."""
    with (
        pumice_up("--nodes", "1", "--node-capacity", "cpu=4,memory=8Gi", everything=True) as (_, kubeconfig),
        closing(Client(read_kubeconfig(kubeconfig))) as client,
    ):
        submit(client, "busy", 4)
        eventually(lambda: client.get(f"{GROUPS}/busy").get("status", {}).get("running") == 4)
        submit(client, "late", 4, least=4)
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "huge"}}
        client.create(JOBS, {**job, "spec": {"template": {"spec": pod_spec(64)}}})
        eventually(lambda: len(client.list(GROUPS).items) == 3)
        eventually(lambda: client.get(f"{GROUPS}/late").get("status", {}).get("phase") == "Inqueue")
        yield client, kubeconfig


def why(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    done = pumice_command("why", *arguments, "--kubeconfig", kubeconfig)
    return done.returncode, done.stdout, done.stderr


def test_a_gang_that_finds_no_room(live: tuple[Client, Path]) -> None:
    status, said, _ = why(live[1], "late")
    assert status == 0
    first, *rest = said.splitlines()
    # 4 cpu, two jobs that want 4 each: 2 each.
    assert first == (
        "default/late waits: not enough free capacity for the 4 tasks it must start together (cpu 4). "
        "The job is entitled to less than that, so it can only start on spare capacity."
    )
    assert "  tasks: 0 running, 4 waiting; at least 4 start together" in rest
    assert "  entitled to 2 tasks; rounded to whole tasks: nothing" in rest
    assert "  0 of 1 node have room for one of its tasks (cpu 1)" in rest
    assert "    1 node:  insufficient cpu (need 1, most free 0)  node-000" in rest
    assert [line for line in rest if line and not line.startswith(" ")] == ["JOB", "TURN", "NODES", "TO START"]


def test_several_jobs_get_the_answers_that_each_gets_alone(live: tuple[Client, Path]) -> None:
    """Each answer runs the engine ahead, which must not show in the next."""
    names = ("huge", "podgroup/late", "none", "default/podgroup/late", "busy")
    status, said, errors = why(live[1], *names, "-o", "json")
    answers = json.loads(said)
    assert (status, len(answers), answers[2]) == (1, 5, None)
    assert errors == 'error: PodGroup, Job or pod "none" not found in namespace default\n'
    alone = json.loads(why(live[1], "late", "-o", "json")[1])
    same = ("job", "cause", "unit", "running", "pending", "target", "contest", "limits", "places")
    for answer in (answers[1], answers[3]):
        assert [answer[name] for name in same] == [alone[name] for name in same]
    assert [answers[0]["cause"], answers[4]["cause"]] == ["never", "running"]
    text = why(live[1], "late", "busy")[1]
    assert [line for line in text.splitlines() if line.startswith("default/")][1].startswith("default/busy")


def test_for_programs(live: tuple[Client, Path]) -> None:
    status, said, _ = why(live[1], "late", "-o", "json")
    answer = json.loads(said)
    assert (status, answer["cause"], answer["unitTasks"], answer["unit"]) == (0, "room", 4, {"cpu": "4"})
    assert answer["places"][0]["out"][0] == {
        "count": 1,
        "lacks": [{"most": "0", "needs": "1", "resource": "cpu"}],
        "nodes": ["node-000"],
        "reason": "insufficient cpu",
    }
    assert answer["created"] <= answer["now"] and answer["now"].endswith("Z")
    assert [rung["ours"]["name"] for rung in answer["contest"]["rungs"]] == [
        "root/default",
        "root/default/default",
        "default/late",
    ]


def test_jobs_that_do_not_wait_and_never_start(live: tuple[Client, Path]) -> None:
    assert why(live[1], "busy")[1].startswith("default/busy is not waiting: all its 4 tasks have a node\n")
    status, said, _ = why(live[1], "job/huge")
    assert status == 0
    assert said.startswith(
        "default/huge waits and can never start: 1 task would not fit any node, not even an empty one\n"
    )
    assert "1 node:  insufficient cpu (need 64, most free 4)" in said


def test_pods(live: tuple[Client, Path]) -> None:
    client, kubeconfig = live
    assert "pod default/busy-0 is on node node-000, Running" in why(kubeconfig, "busy-0")[1]
    assert "pod default/late-0 has no node yet" in why(kubeconfig, "pod/late-0")[1]
    other = {**POD, "metadata": {"name": "other"}, "spec": {**pod_spec(1), "schedulerName": "another"}}
    client.create(PODS, other)
    expected = "pod default/other is not scheduled by Pumice: its schedulerName is another, not pumice or volcano\n"
    assert why(kubeconfig, "other")[:2] == (0, expected)


def test_unknown_names_and_unreachable_clusters(live: tuple[Client, Path], tmp_path: Path) -> None:
    _, kubeconfig = live
    assert why(kubeconfig, "lat") == (
        1,
        "",
        'error: PodGroup, Job or pod "lat" not found in namespace default; did you mean late?\n',
    )
    assert "found in namespace default (use -n)" in why(kubeconfig, "late", "-n", "elsewhere")[2]
    assert why(kubeconfig, "queue/late")[0] == 1
    bad = tmp_path / "config.yaml"
    bad.write_text("actions: dance\n")
    assert why(kubeconfig, "late", "--config", str(bad))[0] == 2
    assert why(tmp_path / "none", "late")[0] == 2
    silent = tmp_path / "silent"
    silent.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    status, _, complaint = why(silent, "late")
    assert status == 1 and "the cluster is not reachable" in complaint


def test_a_scenario() -> None:
    done = pumice_command("why", "daves", "-f", EXAMPLES / "users.yaml")
    assert done.returncode == 0
    assert done.stdout.startswith(
        "default/daves runs 6 of 10 tasks and waits: user dave holds cpu 6 in queue root/dev and requests 1 more; "
        "the user limit is 6 = 12 x 0.5\n"
    )
    done = pumice_command("why", "nobody", "-f", EXAMPLES / "users.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "job default/nobody not found" in done.stderr and "default/alices" in done.stderr


def test_snapshot_reads_the_watched_resources() -> None:
    from pumice.scheduler.loop import WATCHED

    assert set(WATCHED_RESOURCES) == set(WATCHED)


def test_containers_that_cannot_start(live: tuple[Client, Path]) -> None:
    # The simulated kubelet refuses a pod whose annotation it cannot read. The pods request nothing: each has a node.
    client, kubeconfig = live
    client.create(GROUPS, {**GROUP, "metadata": {"name": "odd"}, "spec": {"minMember": 1, "queue": "default"}})
    for number, seconds in enumerate(("1000", "soon")):
        annotations = {"scheduling.k8s.io/group-name": "odd", "pumice.dev/run-seconds": seconds}
        about = {"name": f"odd-{number}", "annotations": annotations}
        client.create(PODS, {**POD, "metadata": about, "spec": pod_spec(0)})
    blocked = "1 of 2 running pods cannot start its container: pod odd-1, container c: CreateContainerConfigError: "
    eventually(lambda: why(kubeconfig, "odd")[1].startswith(f"default/odd has nodes, but {blocked}"))
    status, said, _ = why(kubeconfig, "odd")
    section = said[said.index("\nCONTAINERS\n") :].splitlines()
    assert status == 0 and section[2].startswith("  pod odd-1, container c: CreateContainerConfigError: ")
    answer = json.loads(why(kubeconfig, "odd", "-o", "json")[1])
    assert len(answer["containers"]) == 1 and "odd-1" in answer["containers"][0]


def test_pods_with_scheduling_gates(live: tuple[Client, Path]) -> None:
    client, kubeconfig = live
    client.create(GROUPS, {**GROUP, "metadata": {"name": "gated"}, "spec": {"minMember": 2, "queue": "default"}})
    gates = [{"name": "example.com/quota"}, {"name": "example.com/image"}]
    for number in range(2):
        about = {"name": f"gated-{number}", "annotations": {"scheduling.k8s.io/group-name": "gated"}}
        client.create(PODS, {**POD, "metadata": about, "spec": {**pod_spec(0), "schedulingGates": gates}})
    status, said, _ = why(kubeconfig, "gated")
    assert status == 0
    assert said.splitlines()[0] == (
        "default/gated waits: 0 of 2 required pods (minMember) exist; 2 pods have scheduling gates and cannot be "
        "placed until they are removed: pod gated-0: example.com/quota, example.com/image"
    )
    assert said.rstrip().endswith(
        "TO START\n  - wait until the scheduling gates are removed by the controllers that added them"
    )
