"""Job arrays with a limit, and jobs that start after others: which pods exist when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission.jobs.job_arrays import ARRAY
from pumice.admission.jobs.job_order import AFTER
from pumice.controllers.jobs.plan import Make, ObservedJob, plan
from tests.support.job_model import START, Cluster, job, task


def annotated(document: dict[str, Any], **annotations: str) -> dict[str, Any]:
    document["metadata"]["annotations"] = annotations
    return document


def array(text: str, count: int) -> Cluster:
    return Cluster(annotated(job(task(replicas=count), minAvailable=1, minSuccess=count), **{ARRAY: text}))


def active(cluster: Cluster) -> list[str]:
    return [name for name, pod in cluster.pods.items() if pod["status"]["phase"] not in {"Succeeded", "Failed"}]


def test_pods_of_an_array_have_their_indexes() -> None:
    cluster = array("3,5,8", 3).started()
    found = {}
    for name, pod in cluster.pods.items():
        env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        found[name] = (env["PUMICE_ARRAY_INDEX"], env["PUMICE_ARRAY_COUNT"])
    assert found == {"j-worker-0": ("3", "3"), "j-worker-1": ("5", "3"), "j-worker-2": ("8", "3")}


def test_the_next_pod_of_an_array_is_made_when_one_has_finished() -> None:
    cluster = array("1-4%2", 4).started()
    assert active(cluster) == ["j-worker-0", "j-worker-1"]
    cluster.become("j-worker-1", "Succeeded")
    cluster.settle()
    assert active(cluster) == ["j-worker-0", "j-worker-2"]
    cluster.evict("j-worker-0")  # it counts until it is gone
    cluster.settle()
    assert sorted(cluster.pods) == ["j-worker-0", "j-worker-1", "j-worker-2"]
    cluster.sweep()
    cluster.settle()
    assert sorted(active(cluster)) == ["j-worker-0", "j-worker-2"]  # made again


def test_an_array_is_complete_only_if_all_of_its_pods_succeeded() -> None:
    for code, phase in (("Succeeded", "Completed"), ("Failed", "Failed")):
        cluster = array("1-3%1", 3).started()
        for index, end in enumerate(("Succeeded", code, "Succeeded")):
            assert cluster.phase == "Running"
            cluster.become(f"j-worker-{index}", end)
            cluster.settle()
        assert cluster.phase == phase


def test_pods_that_the_informer_does_not_show_yet_count() -> None:
    """Pods 2 and 3 were created and are not shown; pod 0 is missing again. No third pod may be made."""
    cluster = array("1-9%2", 9).started()
    for name in ("j-worker-0", "j-worker-1"):
        cluster.become(name, "Succeeded")
    cluster.vanish("j-worker-0")
    assert cluster.job is not None
    seen = ObservedJob(
        cluster.job, cluster.group, [*cluster.pods.values()], created=frozenset({"j-worker-2", "j-worker-3"})
    )
    assert not [write for write in plan(seen, START).writes if isinstance(write, Make)]


@given(
    st.lists(st.sampled_from(["Running", "Succeeded", "Failed", "evict", "sweep", "restart"]), max_size=30), st.data()
)
def test_never_more_pods_than_the_limit(steps: list[str], data: st.DataObject) -> None:
    cluster = array("1-7%3", 7)
    cluster.settle()
    cluster.enter()
    for step in steps:
        cluster.settle()
        if not cluster.pods:
            continue
        name = data.draw(st.sampled_from(sorted(cluster.pods)))
        if step == "evict":
            cluster.evict(name)
        elif step == "sweep":
            cluster.sweep()
        elif step == "restart":
            cluster.command("RestartJob")
        else:
            cluster.become(name, step)
        cluster.settle()
        assert len(active(cluster)) <= 3


# ---- order ---------------------------------------------------------------------------------------------------


def follower(after: str, **upstream: str) -> Cluster:
    cluster = Cluster(annotated(job(task()), **{AFTER: after}))
    cluster.upstream.update(upstream)
    cluster.settle()
    return cluster


def test_a_job_asks_for_nothing_before_the_jobs_that_it_starts_after_have_ended() -> None:
    cluster = follower("a,any:b", a="Running", b="Aborted")
    assert (cluster.phase, cluster.group) == ("Pending", None)
    assert cluster.status["state"]["reason"] == "WaitsForJobs"
    assert cluster.status["state"]["message"] == "waits for job a (Running) to complete and job b (Aborted) to end"
    cluster.upstream["a"] = "Completed"
    cluster.settle()
    assert cluster.status["state"]["message"] == "waits for job b (Aborted) to end"
    cluster.upstream["b"] = "Terminated"
    cluster.settle()
    assert cluster.group is not None
    assert "message" not in cluster.status["state"]


@pytest.mark.parametrize(
    ("upstream", "words"),
    [
        ({"a": "Failed"}, "that job ended with phase Failed"),
        ({"a": "Terminated"}, "that job ended with phase Terminated"),
        ({}, "that job does not exist"),
    ],
)
def test_a_job_fails_if_the_one_before_it_did_not_complete(upstream: dict[str, str], words: str) -> None:
    cluster = follower("a", **upstream)
    assert (cluster.phase, cluster.group, cluster.pods) == ("Failed", None, {})
    assert cluster.status["state"]["reason"] == "DependencyFailed"
    assert words in cluster.status["state"]["message"]


def test_a_job_that_may_start_after_any_end_starts_after_a_deletion_too() -> None:
    assert follower("any:a").group is not None
    assert follower("any:a", a="Failed").group is not None


def test_a_job_that_was_suspended_and_resumed_does_not_wait_again() -> None:
    cluster = follower("a", a="Completed").started()
    cluster.command("AbortJob")
    cluster.settle()
    cluster.sweep()
    cluster.settle()
    assert cluster.phase == "Aborted"
    cluster.upstream.clear()  # deleted since
    cluster.command("ResumeJob")
    cluster.started()
    assert cluster.phase == "Running"


def test_a_waiting_job_can_be_suspended() -> None:
    cluster = follower("a", a="Running")
    cluster.command("AbortJob")
    cluster.settle()
    assert cluster.phase == "Aborted"
