"""The job commands against the embedded API."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.kube.client.sync_client import Client
from pumice.kube.resources import COMMANDS, JOBS, NAMESPACES, POD_GROUPS, QUEUES
from tests.cli.cluster.calls import Caller
from tests.cli.command import program

PREFIX = "job.batch.volcano.sh"


@pytest.fixture(scope="module", autouse=True)
def places(cluster: tuple[Client, Path]) -> None:
    """Two queues under ``lab``, and a namespace."""
    client, _ = cluster
    for name, parent in [("lab", "root"), ("left", "lab"), ("right", "lab")]:
        queue = {"metadata": {"name": name}, "spec": {"parent": parent}}
        client.create(QUEUES.path(), {"apiVersion": QUEUES.api_version, "kind": "Queue", **queue})
    client.create(NAMESPACES.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})


@pytest.fixture(autouse=True)
def no_jobs(client: Client) -> Iterator[None]:
    yield
    for job in client.list(JOBS.path()).items:
        client.delete(JOBS.path(job["metadata"]["namespace"], job["metadata"]["name"]))


def phase(client: Client, name: str, phase: str, **status: Any) -> None:
    client.merge(JOBS.path("default", name, "status"), {"status": {"state": {"phase": phase}, **status}})


# ---- submitting ----------------------------------------------------------------------------------------------------


def test_vsub_warns_of_resources_that_no_node_offers(call: Caller, client: Client) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "with-gpus"}}
    client.create("/api/v1/nodes", {**node, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}})
    ended = call("vsub odd -q left -R cpu=1,gpu=1,example.com/fpga=1")
    assert ended.status == 0 and "created in queue left" in ended.out
    assert ended.err.splitlines() == [
        "warning: no node offers example.com/fpga; the job waits for one",
        "warning: no node offers gpu, did you mean 'nvidia.com/gpu'?; the job waits for one",
    ]
    call.said("vsub usual -q left -R cpu=1,nvidia.com/gpu=1")
    client.delete("/api/v1/nodes/with-gpus")


def test_vsub_options_all_reach_created_job(call: Caller, client: Client) -> None:
    line = (
        "vsub train -q left -r 4 -m 2 -i torch -R cpu=2,nvidia.com/gpu=1 -L cpu=3 -S volcano --run-seconds 30 --fail 3 "
        "--max-retry 5 --ttl 60 --user ann --env A=b=c --label team=x -- python train.py --epochs 3 -q"
    )
    dry = yaml.safe_load(call.said(line.replace("vsub train", "vsub train --dry-run")))
    assert call("vjobs").err == "no jobs in namespace default; -A looks in all\n"
    assert call.said(line) == f"{PREFIX}/train created in queue left\n"
    made = client.get(JOBS.path("default", "train"))
    assert made["spec"] == dry["spec"]
    assert {**made["metadata"]["labels"], **made["metadata"]["annotations"]} == {"team": "x", "volcano.sh/user": "ann"}
    assert dry["spec"] == {
        "queue": "left",
        "minAvailable": 2,
        "schedulerName": "volcano",
        "maxRetry": 5,
        "ttlSecondsAfterFinished": 60,
        "tasks": [
            {
                "name": "main",
                "replicas": 4,
                "template": {
                    "metadata": {
                        "labels": {"team": "x"},
                        "annotations": {"pumice.dev/run-seconds": "30", "pumice.dev/fail": "3"},
                    },
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "main",
                                "image": "torch",
                                "command": ["python", "train.py", "--epochs", "3", "-q"],
                                "env": [{"name": "A", "value": "b=c"}],
                                "resources": {
                                    "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
                                    "limits": {"cpu": "3", "nvidia.com/gpu": "1"},
                                },
                            }
                        ],
                    },
                },
            }
        ],
    }


def test_gpus_time_and_node_selector(call: Caller, client: Client) -> None:
    call.said("vsub tune --gpus 2 --time 1h30m --node-selector gpu=a100 --node-selector zone=b")
    pod = client.get(JOBS.path("default", "tune"))["spec"]["tasks"][0]["template"]["spec"]
    assert pod["activeDeadlineSeconds"] == 5400
    assert pod["nodeSelector"] == {"gpu": "a100", "zone": "b"}
    resources = pod["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1", "memory": "100Mi", "nvidia.com/gpu": "2"}
    assert resources["limits"] == {"nvidia.com/gpu": "2"}


def test_requests_that_nobody_chose_fit_into_the_limits(call: Caller, client: Client) -> None:
    """Otherwise no pod of the job could be created."""
    call.said("vsub small -q left -L cpu=2,memory=32Mi")
    spec = client.get(JOBS.path("default", "small"))["spec"]["tasks"][0]["template"]["spec"]
    resources = spec["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1", "memory": "32Mi"}, "limits": {"cpu": "2", "memory": "32Mi"}}


def test_only_my_own_jobs(call: Caller) -> None:
    call.said("vsub mine -q left")
    call.said("vsub hers -q left --user ann")
    assert [line.split()[0] for line in call.said("vjobs --me").splitlines()] == ["Name", "mine"]
    assert [job["metadata"]["name"] for job in json.loads(call.said("vjobs --me -o json"))["items"]] == ["mine"]
    assert call("vjobs --me -n other").err == "no jobs of user admin in namespace other; -A looks in all\n"


def test_little_need_be_said(call: Caller, client: Client) -> None:
    assert call.said("vsub -N little -q left -o name") == f"{PREFIX}/little\n"
    spec = client.get(JOBS.path("default", "little"))["spec"]
    # The rest is the cluster's: who schedules it, how often it is tried.
    assert (spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == ("pumice", 3, 1)
    (task,) = spec["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    assert container == {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": "1", "memory": "100Mi"}},
    }


def test_routing_reason_is_printed(call: Caller) -> None:
    first, second = call.said("vsub sent -q lab").splitlines()
    assert first == f"{PREFIX}/sent created in queue left"
    assert second.startswith("  Routed to queue 'left', the least utilised of 2 open leaf queues below 'lab'")


def test_jobs_from_files_and_standard_input(call: Caller, client: Client, tmp_path: Path) -> None:
    one, two = (call.said(f"vcctl job run file-{i} -q right --dry-run") for i in (1, 2))
    (tmp_path / "jobs.yaml").write_text(f"{one}---\n{two}---\n")
    assert call.said(f"vsub -f {tmp_path / 'jobs.yaml'} -n other") == (
        f"{PREFIX}/file-1 created in queue right\n{PREFIX}/file-2 created in queue right\n"
    )
    assert client.get(JOBS.path("other", "file-1"))
    done = program("vsub", "-f", "-", given=one, KUBECONFIG=str(call.kubeconfig))
    assert (done.stdout, done.stderr, done.returncode) == (f"{PREFIX}/file-1 created in queue right\n", "", 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("kind: Pod\napiVersion: v1\n", "document 1: v1 Pod is not a Job of batch.volcano.sh/v1alpha1"),
        ("a: [", "invalid YAML"),
        ("- 1\n", "document 1: no object"),
        ("", "no Job found"),
        (
            "kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nmetadata: {name: a, namespace: default}\n",
            "document 1: metadata.namespace default does not match --namespace other",
        ),
    ],
)
def test_invalid_files_are_rejected(call: Caller, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(content)
    status, out, err = call(f"vsub -f {path} -n other")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {path}: ") and words in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vsub", "a NAME, a command after --, or a file with -f, is required"),
        ("vsub --", "a NAME, a command after --, or a file with -f, is required"),
        ("vsub a -N b", "two names given: a and b; put a command for the pods after --"),
        ("vsub a python", "Got unexpected extra argument"),
        ("vsub a -m 2", "--min 2 must not be greater than --replicas 1"),
        ("vsub a -r 0", "0 is not in the range x>=1"),
        ("vsub a --gpus 1 -R nvidia.com/gpu=1", "--gpus cannot be combined with nvidia.com/gpu in --requests"),
        ("vsub a --time 90", "'90': must be a duration such as 90s, 1h30m or 2d"),
        ("vsub a --node-selector gpu", "'gpu' given, but KEY=VALUE is needed"),
        ("vsub a --env A", "'A' given, but KEY=VALUE is needed"),
        ("vsub a -R memory=1Gi -L memory=512Mi", "--requests memory=1Gi is more than --limits memory=512Mi"),
        ("vsub a -- echo \udcfe", r"the command is not text (UTF-8): b'\xfe'"),
        ("vsub -f /dev/null -q left", "--queue cannot be combined with --filename"),
        ("vsub -f /dev/null -- ls", "a command cannot be combined with --filename"),
        ("vcancel", "a NAME is required"),
        ("vcctl job view", "a NAME is required"),
    ],
)
def test_usage_errors_exit_with_2(call: Caller, line: str, words: str) -> None:
    status, out, err = call(line)
    assert (status, out) == (2, "")
    assert words in err.splitlines()[-1] and err.splitlines()[-1].startswith("error: ")


def test_server_refusal_names_object_and_field(call: Caller) -> None:
    assert call("vsub a -q nope") == (
        1,
        "",
        "error: jobs/a: spec.queue: Not found: queue 'nope'; leaf queues: default, left, right\n",
    )
    call.said("vsub a -q left")
    assert call("vsub a -q left") == (1, "", 'error: jobs.batch.volcano.sh "a" already exists\n')
    assert call("vsub a -n nowhere -q left") == (1, "", 'error: namespaces "nowhere" not found\n')


# ---- looking -------------------------------------------------------------------------------------------------------


def test_lists_and_every_output(call: Caller, client: Client) -> None:
    call.said("vsub a -q left -r 2 --label team=x")
    call.said("vsub b -q right")
    call.said("vsub c -q default -n other")
    phase(client, "a", "Running", running=2)
    heading, first, second = call.said("vjobs").splitlines()
    columns = "Name Queue Phase Replicas Min Pending Running Succeeded Failed Unknown Retries Age"
    assert heading.split() == columns.split()
    assert first.split()[:-1] == ["a", "left", "Running", "2", "1", "0", "2", "0", "0", "0", "0"]
    assert second.split()[:3] == ["b", "right", "Pending"]

    def names(line: str) -> list[str]:
        return call.said(f"{line} -o name").replace(f"{PREFIX}/", "").split()

    assert names("vjobs -A") == ["a", "b", "c"]
    assert names("vcctl -n other job list") == names("pumice job list -n other") == ["c"]
    assert names("vjobs -A -q lab") == ["a", "b"]
    assert names("vjobs -q right") == ["b"]
    assert names("vjobs -l team=x") == ["a"]
    assert call.said("vjobs -o wide").splitlines()[0].split()[-5:] == [
        "User",
        "Priority",
        "Tasks",
        "Requests",
        "Message",
    ]
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        found = read(call.said(f"vjobs -o {output}"))
        assert (found["kind"], found["items"][0]) == ("List", client.get(JOBS.path("default", "a")))
        assert read(call.said(f"vcctl job get a -o {output}")) == found["items"][0]
    assert [line.split()[0] for line in call.said("vcctl job get b a").splitlines()] == ["Name", "b", "a"]
    assert call("vjobs -q nope").err == 'error: queues.scheduling.volcano.sh "nope" not found\n'
    assert call("vjobs -q left -n other").err == "no jobs of queue left in namespace other; -A looks in all\n"


def test_unknown_names_are_not_found(call: Caller) -> None:
    call.said("vsub train -q left")
    missing = 'error: jobs.batch.volcano.sh "trian" not found; did you mean train?'
    assert call("vcctl job get trian") == (1, "", f"{missing}\n")
    status, out, err = call("vcctl job get train trian")
    assert (status, len(out.splitlines()), err) == (1, 2, f"{missing}\n")
    assert call("vsuspend trian") == (1, "", f"{missing} (namespace default)\n")
    assert call("vcctl job view trian") == (1, "", 'error: jobs.batch.volcano.sh "trian" not found\n')


def test_job_view_describes_a_job(call: Caller, client: Client) -> None:
    call.said("vsub words -q left -r 2")
    about = {"kind": "Job", "namespace": "default", "name": "words", "apiVersion": JOBS.api_version}
    event = {
        "type": "Normal",
        "metadata": {"generateName": "e-"},
        "involvedObject": about,
        "reason": "Seen",
        "message": "look here",
    }
    client.create("/api/v1/namespaces/default/events", {"apiVersion": "v1", "kind": "Event", **event})
    shown = call.said("vcctl job view words")
    assert "Queue:      left\n" in shown and "Phase:      Pending\n" in shown
    assert shown.splitlines()[-1].endswith("  Seen    look here")


def test_job_view_shows_the_evictions_of_its_pods(call: Caller, client: Client) -> None:
    call.said("vsub loser -q left -r 2")
    job = client.get(JOBS.path("default", "loser"))
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "loser", "uid": job["metadata"]["uid"]}
    group = {"metadata": {"name": "loser-1", "ownerReferences": [owner]}, "spec": {"minMember": 1, "queue": "left"}}
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    client.create(POD_GROUPS.path("default"), {**kind, **group})
    for name, reason in (
        ("loser-1", "Evict"),
        ("other", "Else"),
    ):  # as the scheduler reports it, and one of another job
        about = {**kind, "namespace": "default", "name": name}
        said = {
            "type": "Normal",
            "reason": reason,
            "message": "Evicted pod loser-main-1 from node n",
        }
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, "involvedObject": about}
        client.create("/api/v1/namespaces/default/events", {**event, **said})
    shown = call.said("vcctl job view loser")
    assert shown.splitlines()[-1].endswith("  Evict   Evicted pod loser-main-1 from node n")
    assert "Else" not in shown


# ---- changing ------------------------------------------------------------------------------------------------------


@contextmanager
def obeying(client: Client, action: str, name: str, becomes: str) -> Iterator[list[dict[str, Any]]]:
    """A controller for one command."""
    taken: list[dict[str, Any]] = []
    ours = Client(client.access)

    def obey() -> None:
        while not (found := [each for each in ours.list(COMMANDS.path()).items if each["action"] == action]):
            time.sleep(0.02)
        taken.extend(found)
        ours.delete(COMMANDS.path("default", found[0]["metadata"]["name"]))
        time.sleep(0.15)
        phase(ours, name, becomes)
        ours.close()

    thread = threading.Thread(target=obey)
    thread.start()
    yield taken
    thread.join(20)


def test_suspending_and_resuming_is_ordered_by_commands(call: Caller, client: Client) -> None:
    call.said("vsub s -q left")
    phase(client, "s", "Running")
    with obeying(client, "AbortJob", "s", "Aborting") as taken:
        assert call.said("vsuspend s") == f"{PREFIX}/s suspended\n"
    uid = client.get(JOBS.path("default", "s"))["metadata"]["uid"]
    assert taken[0]["target"] == {"apiVersion": JOBS.api_version, "kind": "Job", "name": "s", "uid": uid}
    with obeying(client, "ResumeJob", "s", "Pending"):
        assert call.said("vcctl job resume -N s -n default") == f"{PREFIX}/s resumed\n"


def test_suspend_and_resume_in_wrong_phases(call: Caller, client: Client) -> None:
    call.said("vsub o -q left")
    assert call("vresume o") == (1, "", f"error: {PREFIX}/o cannot be resumed: its phase is Pending, not Aborted\n")
    phase(client, "o", "Completed")
    assert call("vsuspend o") == (1, "", f"error: {PREFIX}/o cannot be suspended: its phase is Completed\n")
    assert client.list(COMMANDS.path()).items == []


def test_command_without_controller_times_out(call: Caller, client: Client) -> None:
    call.said("vsub n -q left")
    status, out, err = call("vsuspend n --wait 0.2")
    assert (status, out) == (1, "") and "timed out after 0.2 s waiting for the command AbortJob" in err
    assert call.said("vsuspend n --wait 0") == f"{PREFIX}/n AbortJob sent\n"
    for command in client.list(COMMANDS.path()).items:
        client.delete(COMMANDS.path("default", command["metadata"]["name"]))


def test_delete_continues_after_an_unknown_name(call: Caller) -> None:
    call.said("vsub x -q left")
    call.said("vsub y -q left")
    assert call("vcancel x zzzzz y") == (
        1,
        f"{PREFIX}/x deleted\n{PREFIX}/y deleted\n",
        'error: jobs.batch.volcano.sh "zzzzz" not found (namespace default)\n',
    )
    assert call("vjobs").out == ""
