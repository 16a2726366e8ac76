"""Pods without a group get one, and are scheduled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pumice.controllers.podgroups import PodGroups, group_of, lacks_group
from pumice.controllers.together import Together
from pumice.kube.api import Api
from pumice.kube.kubeconfig import Access
from pumice.kube.session import Session
from tests.support.live_cluster import GROUPS, eventually, live, scheduling

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
def test_who_lacks_a_group(found: dict[str, Any], lacks: bool) -> None:
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
    assert first["metadata"]["ownerReferences"] == [{**JOB, "blockOwnerDeletion": True}]
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
            work = asyncio.create_task(Together(Api(session), [PodGroups]).run())
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
