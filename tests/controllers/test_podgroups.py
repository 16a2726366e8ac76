"""Pods without a group get one, and are scheduled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pumice.controllers.manager import ControllerManager
from pumice.controllers.podgroups import MIN_MEMBER, QUEUE, PodGroupController, group_of, is_left_behind, lacks_group
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.live_cluster import GROUPS, eventually, live, scheduling

LABEL = "volcano.sh/queue-name"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-job", "controller": True}


def pod(**more: Any) -> dict[str, Any]:
    about = {"name": "p", "namespace": "ns", "uid": "u-pod", **more.pop("metadata", {})}
    return {"metadata": about, "spec": {"schedulerName": "pumice", **more.pop("spec", {})}, **more}


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (pod(), True),
        (pod(spec={"schedulerName": "volcano"}), True),
        (pod(spec={"schedulerName": "default-scheduler"}), False),
        (pod(metadata={"annotations": {"scheduling.k8s.io/group-name": "g"}}), False),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        (pod(status={"phase": "Succeeded"}), False),
        (pod(status={"phase": "Pending"}), True),
    ],
)
def test_only_unfinished_pods_of_our_schedulers_lack_a_podgroup(found: dict[str, Any], lacks: bool) -> None:
    assert lacks_group(found) is lacks


def test_a_pod_of_nobody_has_a_group_of_its_own() -> None:
    group = group_of(pod())
    assert group["metadata"]["name"] == "podgroup-u-pod"
    assert group["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert group["spec"] == {"minMember": 1}


def test_pods_of_one_owner_share_a_group_that_the_owner_owns() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "q", "volcano.sh/user": "ann", "other": "x"}
    first = group_of(
        pod(metadata={"ownerReferences": [JOB], "annotations": annotations}, spec={"priorityClassName": "high"})
    )
    second = group_of(pod(metadata={"name": "p2", "uid": "u2", "ownerReferences": [{"kind": "X", "uid": "x"}, JOB]}))
    assert first["metadata"]["name"] == second["metadata"]["name"] == "podgroup-u-job"
    assert first["metadata"]["ownerReferences"] == [JOB]  # which nobody blocks
    assert first["metadata"]["annotations"] == {"volcano.sh/user": "ann"}
    assert first["spec"] == {"minMember": 1, "queue": "q", "priorityClassName": "high"}


def test_a_batch_job_runs_to_its_end_and_its_group_goes_with_it(tmp_path: Path) -> None:
    template = {
        "metadata": {"annotations": {"pumice.dev/run-seconds": "0.1"}},
        "spec": {
            "schedulerName": "pumice",
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
        },
    }

    async def check(running: Any) -> None:
        async with Session(Access(running.server)) as session, scheduling(running.server):
            work = asyncio.create_task(ControllerManager(Api(session), [PodGroupController]).run())
            try:
                spec = {"completions": 4, "parallelism": 2, "template": template}
                await running.api.create("jobs.batch", "default", {"metadata": {"name": "sums"}, "spec": spec})

                def succeeded() -> int:
                    return int(
                        (running.api.read("jobs.batch", "default", "sums") or {}).get("status", {}).get("succeeded", 0)
                    )

                await eventually(lambda: succeeded() == 4)
                (group,) = running.api.list(GROUPS)
                assert group["metadata"]["ownerReferences"][0]["name"] == "sums"
                await running.api.delete("jobs.batch", "default", "sums", propagation="Background")
                await eventually(lambda: not running.api.list(GROUPS) and not running.api.list("pods"))
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    live(tmp_path, check)


def test_a_pod_whose_group_is_refused_says_why(tmp_path: Path) -> None:
    container = {"name": "c", "image": "x"}
    spec = {"schedulerName": "pumice", "containers": [container]}
    lost = {"metadata": {"name": "lost", "annotations": {QUEUE: "nope"}}, "spec": spec}

    async def check(running: Any) -> None:
        async with Session(Access(running.server)) as session:
            work = asyncio.create_task(ControllerManager(Api(session), [PodGroupController]).run())
            try:
                uid = (await running.api.create("pods", "default", lost))["metadata"]["uid"]
                await eventually(lambda: bool(running.api.list("events")))
                (said,) = running.api.list("events")
                assert (said["type"], said["reason"]) == ("Warning", "FailedCreate")
                assert (said["involvedObject"]["kind"], said["involvedObject"]["uid"]) == ("Pod", uid)
                assert said["message"].startswith(f"Failed to create PodGroup podgroup-{uid}: ")
                assert "Not found: queue 'nope'" in said["message"]
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    live(tmp_path, check)


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "u-set", "controller": True}
NEXT = {**SET, "name": "web-77c9", "uid": "u-next"}


def test_every_version_of_a_deployment_has_a_group() -> None:
    old, new = (group_of(pod(metadata={"ownerReferences": [owner]})) for owner in (SET, NEXT))
    assert old["metadata"]["name"] == "podgroup-u-set" and new["metadata"]["name"] == "podgroup-u-next"
    assert old["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


@pytest.mark.parametrize(
    ("of_pod", "of_owner", "wanted", "least"),
    [
        ({}, {}, {}, 1),
        ({}, {MIN_MEMBER: "3"}, {}, 3),
        ({}, {MIN_MEMBER: "3"}, {"replicas": 5}, 3),
        ({}, {MIN_MEMBER: "3"}, {"replicas": 1}, 1),  # in the middle of a rolling update, say
        ({}, {MIN_MEMBER: "3"}, {"parallelism": 2}, 2),
        ({MIN_MEMBER: "2"}, {MIN_MEMBER: "3"}, {}, 2),
        ({MIN_MEMBER: "0"}, {}, {}, 1),
        ({MIN_MEMBER: "-1"}, {}, {}, 1),
        ({MIN_MEMBER: "many"}, {}, {}, 1),
    ],
)
def test_podgroup_min_member_comes_from_annotations_capped_by_replicas(
    of_pod: dict[str, str], of_owner: dict[str, str], wanted: dict[str, int], least: int
) -> None:
    owner = {"metadata": {"annotations": of_owner}, "spec": wanted}
    found = group_of(pod(metadata={"ownerReferences": [SET], "annotations": of_pod}), owner)
    assert found["spec"]["minMember"] == least


def test_an_owner_speaks_for_its_pods_but_not_of_whose_they_are() -> None:
    said = {"volcano.sh/user": "ann", "volcano.sh/preemptable": "true", QUEUE: "web", "other": "x"}
    found = group_of(pod(metadata={"ownerReferences": [SET]}), {"metadata": {"annotations": said}})
    assert found["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    assert found["spec"] == {"minMember": 1, "queue": "web"}


@pytest.mark.parametrize(
    ("annotations", "labels", "of_owner", "queue"),
    [
        ({}, {LABEL: "web"}, {}, "web"),
        ({QUEUE: "dev"}, {LABEL: "web"}, {}, "dev"),
        ({}, {LABEL: "web"}, {QUEUE: "dev"}, "web"),
        ({}, {QUEUE: "web"}, {}, None),  # no label of Volcano
    ],
)
def test_a_pod_names_its_queue_in_an_annotation_or_a_label(
    annotations: dict[str, str], labels: dict[str, str], of_owner: dict[str, str], queue: str | None
) -> None:
    about = {"ownerReferences": [SET], "annotations": annotations, "labels": labels}
    found = group_of(pod(metadata=about), {"metadata": {"annotations": of_owner}})
    assert found["spec"].get("queue") == queue


@pytest.mark.parametrize(
    ("name", "owner", "left"),
    [
        ("podgroup-u-set", SET, True),
        ("podgroup-u-pod", {**SET, "kind": "Pod", "uid": "u-pod"}, False),  # it goes with its pod
        ("mine", SET, False),
        ("podgroup-u-set", None, False),
    ],
)
def test_which_groups_are_taken_away_when_they_are_empty(name: str, owner: dict[str, Any] | None, left: bool) -> None:
    about: dict[str, Any] = {"name": name, "namespace": "ns"} | ({"ownerReferences": [owner]} if owner else {})
    assert is_left_behind({"metadata": about}) is left


def test_a_deployment_has_a_group_for_the_version_that_runs(tmp_path: Path) -> None:
    def version(number: int) -> dict[str, Any]:
        container = {"name": "c", "image": f"web:{number}", "resources": {"requests": {"cpu": "1"}}}
        about = {"labels": {"app": "web"}, "annotations": {"pumice.dev/stop-seconds": "0"}}
        return {"metadata": about, "spec": {"schedulerName": "pumice", "containers": [container]}}

    async def check(running: Any) -> None:
        def groups() -> dict[str, int]:
            found = running.api.list(GROUPS)
            return {group["metadata"]["ownerReferences"][0]["name"]: group["spec"]["minMember"] for group in found}

        def at_work() -> dict[str, str]:
            """The image of every pod that has a node."""
            found = (pod for pod in running.api.list("pods") if pod["spec"].get("nodeName"))
            return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in found}

        def sets() -> dict[str, int]:
            return {
                found["metadata"]["name"]: found["spec"]["replicas"] for found in running.api.list("replicasets.apps")
            }

        async with Session(Access(running.server)) as session, scheduling(running.server):
            work = asyncio.create_task(ControllerManager(Api(session), [PodGroupController]).run())
            try:
                spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": version(1)}
                about = {"name": "web", "annotations": {MIN_MEMBER: "2"}}
                await running.api.create("deployments.apps", "default", {"metadata": about, "spec": spec})
                await eventually(lambda: list(at_work().values()) == ["web:1"] * 2)
                (first,) = sets()
                assert groups() == {first: 2}  # the Deployment says so, and its ReplicaSet repeats it

                def renew(found: dict[str, Any]) -> None:
                    found["spec"]["template"] = version(2)

                await running.api.modify("deployments.apps", "default", "web", renew)
                await eventually(lambda: list(at_work().values()) == ["web:2"] * 2)
                (second,) = sets().keys() - {first}
                await eventually(lambda: list(groups()) == [second])
                assert sets()[first] == 0  # it is there, for the way back, but has no group
                # Somebody takes a group away that is in use.
                (group,) = running.api.list(GROUPS)
                await running.api.delete(GROUPS, "default", group["metadata"]["name"])
                await eventually(lambda: list(groups()) == [second])
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    live(tmp_path, check)
