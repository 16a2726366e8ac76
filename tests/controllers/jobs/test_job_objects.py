"""What is made for a job: its podgroup and its pods; and which tasks wait for which."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.controllers.jobs.dependencies import minimum
from pumice.controllers.jobs.job_status import JobStatus, duration
from pumice.controllers.jobs.podgroup import group_of, patch_of_group
from pumice.controllers.jobs.pods import claims, pod_of
from pumice.controllers.jobs.spec import read_job
from tests.support.job_model import POD, Cluster, job, task


def annotated(document: dict[str, Any], **annotations: str) -> dict[str, Any]:
    document["metadata"]["annotations"] = annotations
    return document


def test_a_group_asks_for_what_must_start_together() -> None:
    # Each pod asks for half a cpu. 2 of a and 1 of b are needed: the fourth of the minimum is the third of a.
    found = read_job(job(task("a", 3, minAvailable=2), task("b", 2, minAvailable=1), minAvailable=4))
    group = group_of(found, frozenset({"a", "b"}))
    assert group["metadata"]["name"] == "j-u-j"
    assert group["spec"] == {
        "minMember": 4,
        "minTaskMember": {"a": 2, "b": 1},
        "minResources": {"cpu": "2"},
        "queue": "q",
    }


@pytest.mark.parametrize(
    ("least", "resources"),
    [
        (1, {"cpu": "1"}),  # one small task may start alone
        (3, {"cpu": "5"}),  # both small ones, and one of 3 cpu
    ],
)
def test_minimum_resources_of_a_group_are_those_of_its_smallest_tasks(least: int, resources: dict[str, str]) -> None:
    large, small = task("large", 2), task("small", 2)
    for each, cpu in ((large, "3"), (small, "1")):
        each["template"] = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    group = group_of(read_job(job(large, small, minAvailable=least)), frozenset({"large", "small"}))
    assert group["spec"]["minResources"] == resources


def test_a_group_has_the_network_topology_of_its_job() -> None:
    wanted = {"mode": "hard", "highestTierAllowed": 2}
    assert group_of(read_job(job(networkTopology=wanted)), frozenset({"worker"}))["spec"]["networkTopology"] == wanted
    assert "networkTopology" not in group_of(read_job(job()), frozenset({"worker"}))["spec"]


def test_a_group_knows_whose_job_it_is() -> None:
    said = {
        "volcano.sh/user": "ann",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "pumice.dev/routed": "x",
    }
    document = annotated(job(priorityClassName="high"), **said)
    document["metadata"]["labels"] = {"team": "blue"}
    group = group_of(read_job(document), frozenset({"worker"}))
    assert group["metadata"]["annotations"] == {"volcano.sh/user": "ann"}
    assert group["metadata"]["labels"] == {"team": "blue"}
    assert group["spec"]["priorityClassName"] == "high"
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "u-j", True)


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"minMember": 2}, {"minMember": 2}, None),
        ({"minMember": 2, "queue": "leaf"}, {"minMember": 2}, None),
        ({"minMember": 2}, {"minMember": 3}, {"minMember": 3}),
        ({"minTaskMember": {"a": 1, "b": 1}}, {"minTaskMember": {"b": 2}}, {"minTaskMember": {"a": None, "b": 2}}),
        ({"priorityClassName": "x"}, {}, {"priorityClassName": None}),
        ({"networkTopology": {"mode": "soft"}}, {"networkTopology": {"mode": "soft"}}, None),
    ],
)
def test_a_group_follows_its_job(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any] | None) -> None:
    assert patch_of_group({"spec": before}, after) == (patch and {"spec": patch})


def test_job_pod_carries_volcano_labels_and_annotations() -> None:
    template = {
        "metadata": {
            "labels": {"app": "x"},
            "annotations": {"pumice.dev/run-seconds": "5", "volcano.sh/job-name": "?", "volcano.sh/user": "bert"},
        },
        "spec": POD["spec"],
    }
    document = job(task("a", 3, template=template), schedulerName="pumice", priorityClassName="high")
    found = read_job(annotated(document, **{"volcano.sh/user": "ann", "other": "x"}))
    pod = pod_of(found, found.tasks[0], 2, JobStatus(version=4, retries=3, restarts={"a": 1, "a.2": 1, "a.1": 7}))
    about = pod["metadata"]
    assert (about["name"], about["namespace"]) == ("j-a-2", "ns")
    assert about["annotations"] == {
        "pumice.dev/run-seconds": "5",
        "volcano.sh/user": "ann",
        "scheduling.k8s.io/group-name": "j-u-j",
        "volcano.sh/task-spec": "a",
        "volcano.sh/task-index": "2",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-version": "4",
        "volcano.sh/job-retry-count": "3",
        "volcano.sh/template-uid": "u-j-a",
        "volcano.sh/queue-name": "q",
        "pumice.dev/restarts": "2",
    }
    assert about["labels"] == {
        "app": "x",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/task-spec": "a",
        "volcano.sh/task-index": "2",
        "volcano.sh/queue-name": "q",
    }
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == ("pumice", "high")
    assert "env" not in pod["spec"]["containers"][0]  # the job does not ask for the plugin


def test_volumes_are_mounted_and_claims_made() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "mine"},
        {"mountPath": "/new", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]
    found = read_job(job(volumes=volumes))
    spec = pod_of(found, found.tasks[0], 0, JobStatus())["spec"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]] == ["mine", "j-volume-1"]
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == ["/data", "/new"]
    assert [claim["metadata"]["name"] for claim in claims(found)] == ["j-volume-1"]


@pytest.mark.parametrize(
    ("iteration", "running", "made"),
    [
        # c waits for a (2 pods, 2 needed) and b (2 pods, 1 needed).
        ("all", [], False),
        ("all", ["a-0", "a-1"], False),
        ("all", ["a-0", "b-0"], False),
        ("all", ["a-0", "a-1", "b-1"], True),
        ("any", ["a-0"], False),
        ("any", ["a-0", "a-1"], True),
        ("any", ["b-0"], True),
    ],
)
def test_a_task_starts_when_those_it_waits_for_are_under_way(iteration: str, running: list[str], made: bool) -> None:
    after = {"name": ["a", "b"], "iteration": iteration}
    cluster = Cluster(job(task("a", 2), task("b", 2, minAvailable=1), task("c", 1, dependsOn=after)))
    cluster.settle()
    cluster.enter()
    cluster.settle()
    assert set(cluster.pods) == {"j-a-0", "j-a-1", "j-b-0", "j-b-1"}
    for name in running:
        cluster.become(f"j-{name}", "Running")
    cluster.settle()
    assert ("j-c-0" in cluster.pods) is made


@pytest.mark.parametrize(
    ("least", "may_start", "expected"),
    [
        # a has 2 pods and needs 2, b has 10 and needs 1; b waits for a.
        (3, {"a", "b"}, 3),
        (3, {"a"}, 2),  # 3 - 1 of b
        (8, {"a"}, 2),  # 8 - 1 of b would be 7, but there are only 2
        (1, {"a"}, 1),
    ],
)
def test_podgroup_minimum_excludes_tasks_not_yet_startable(least: int, may_start: set[str], expected: int) -> None:
    found = read_job(job(task("a", 2), task("b", 10, minAvailable=1), minAvailable=least))
    assert minimum(found, frozenset(may_start)) == expected


def test_job_fails_when_dependency_task_has_failed() -> None:
    cluster = Cluster(job(task("a", 2), task("b", dependsOn={"name": ["a"]})))
    cluster.settle()
    cluster.enter()
    cluster.settle()
    cluster.become("j-a-0", "Failed")
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.become("j-a-1", "Failed")
    cluster.settle()
    assert (cluster.phase, cluster.status["state"]["reason"]) == ("Failed", "DependencyFailed")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.6, "1m0s"), (3600, "1h0m0s"), (-1, "0s")])
def test_durations_as_go_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_job_without_what_admission_fills_in() -> None:
    bare = {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": {"tasks": [{"template": POD}, {}]}}
    found = read_job(bare)
    assert [(each.name, each.replicas, each.least) for each in found.tasks] == [("default0", 1, 1), ("default1", 1, 1)]
    assert (found.min_available, found.max_retry, found.scheduler) == (2, 3, "volcano")
