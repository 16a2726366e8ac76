"""Which policy something falls under, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.controllers.jobs.lifecycle_events import LifecycleEvent
from pumice.controllers.jobs.policies import due, policy_for
from pumice.controllers.jobs.spec import read_job
from tests.support.job_model import START, Cluster, job, task


def when(event: str, action: str = "RestartJob", **more: Any) -> dict[str, Any]:
    return {"event": event, "action": action, **more}


@pytest.mark.parametrize(
    ("of_task", "of_job", "event", "code", "action"),
    [
        ([], [], "PodFailed", 1, None),
        ([], [when("PodFailed")], "PodFailed", 1, "RestartJob"),
        ([], [when("PodFailed")], "PodEvicted", 0, None),
        ([], [{"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}], "PodFailed", 1, "AbortJob"),
        # The task's own come first.
        ([when("PodFailed", "AbortJob")], [when("PodFailed")], "PodFailed", 1, "AbortJob"),
        ([when("PodEvicted", "AbortJob")], [when("PodFailed")], "PodFailed", 1, "RestartJob"),
        # Of those of one list, the first that fits.
        ([], [{"exitCode": 3, "action": "AbortJob"}, when("PodFailed")], "PodFailed", 3, "AbortJob"),
        ([], [{"exitCode": 3, "action": "AbortJob"}, when("PodFailed")], "PodFailed", 4, "RestartJob"),
        ([], [when("*"), {"exitCode": 3, "action": "AbortJob"}], "PodFailed", 3, "RestartJob"),
        # Anything is what goes wrong or ends, not what happens to every job.
        ([], [when("*")], "PodEvicted", 0, "RestartJob"),
        ([], [when("*")], "TaskCompleted", 0, "RestartJob"),
        ([], [when("*")], "Unknown", 0, "RestartJob"),
        ([], [when("*")], "PodRunning", 0, None),
        ([], [when("*")], "PodPending", 0, None),
        ([], [when("PodRunning")], "PodRunning", 0, "RestartJob"),
    ],
)
def test_the_policy_that_something_falls_under(
    of_task: list[Any], of_job: list[Any], event: str, code: int, action: str | None
) -> None:
    found = read_job(job(task(policies=of_task), policies=of_job))
    policy = policy_for(found, LifecycleEvent(event, "", 0.0, found.tasks[0], 0, code))
    assert (policy.action if policy else None) == action


def test_policy_with_timeout_fires_only_after_timeout() -> None:
    found = read_job(job(policies=[when("PodPending", timeout="1m30s"), when("PodFailed", timeout="10s")]))
    pending = LifecycleEvent("PodPending", "", 100.0, found.tasks[0], 0)
    failed = LifecycleEvent("PodFailed", "", 150.0, found.tasks[0], 0)
    assert due(found, [pending, failed], 159.0).next == 160.0
    assert due(found, [pending, failed], 160.0).now == [("RestartJob", failed)]
    assert due(found, [pending], 189.0).next == 190.0
    assert due(found, [pending], 190.0).now == [("RestartJob", pending)]


@pytest.mark.parametrize(
    ("action", "renewed"),
    [
        ("RestartPod", {"a-1"}),
        ("RestartPartition", {"a-0", "a-1"}),
        ("RestartTask", {"a-0", "a-1", "a-2", "a-3"}),
        ("RestartJob", {"a-0", "a-1", "a-2", "a-3", "b-0"}),
    ],
)
def test_restart_action_recreates_only_pods_in_scope(action: str, renewed: set[str]) -> None:
    a = task("a", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    cluster = Cluster(job(a, task("b"), policies=[when("PodFailed", action)])).started()
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    cluster.become("j-a-1", "Failed")
    for _ in range(3):
        cluster.settle()
        cluster.sweep()
    cluster.started()
    now = {name for name, pod in cluster.pods.items() if pod["metadata"]["uid"] != before[name]}
    assert now == {f"j-{name}" for name in renewed}
    assert (cluster.phase, cluster.status["retryCount"], cluster.status["running"]) == ("Running", 1, 5)


@pytest.mark.parametrize(("most", "runs"), [(0, 1), (1, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_a_job_fails_when_no_retry_is_left(action: str, most: int, runs: int) -> None:
    # maxRetry 3: the first run, and two more after the first and second restart; the third restart is the failure.
    cluster = Cluster(job(policies=[when("PodFailed", action)], maxRetry=most)).started()
    for _ in range(5):
        cluster.become("j-worker-0", "Failed")
        for _ in range(3):
            cluster.settle()
            cluster.sweep()
        if cluster.phase != "Failed":
            cluster.started()
    assert (cluster.phase, cluster.status["retryCount"], len(cluster.made)) == ("Failed", most, runs)
    assert cluster.status["state"]["reason"] == "MaxRetry"
    assert [pod["status"]["phase"] for pod in cluster.pods.values()] == ["Failed"]  # for people to look into


def test_pods_of_an_older_version_do_nothing() -> None:
    cluster = Cluster(job(task(replicas=2), policies=[when("PodFailed"), when("PodEvicted", "AbortJob")])).started()
    cluster.become("j-worker-0", "Failed")
    cluster.settle()
    assert cluster.phase == "Restarting"
    cluster.become("j-worker-1", "Failed")  # it was told to stop, and did not like it
    cluster.settle()
    cluster.sweep()
    cluster.started()
    assert (cluster.phase, cluster.status["version"], cluster.status["retryCount"]) == ("Running", 1, 1)


def test_a_pod_that_vanished_was_evicted_unless_it_had_ended() -> None:
    cluster = Cluster(job(task(replicas=2), policies=[when("PodEvicted", "AbortJob")])).started()
    cluster.become("j-worker-0", "Succeeded")
    cluster.settle()
    cluster.vanish("j-worker-0")
    cluster.settle()
    assert (cluster.phase, cluster.status["pending"]) == ("Running", 1)  # made again, as nobody knows that it ended
    cluster.vanish("j-worker-1")
    cluster.settle()
    assert (cluster.phase, cluster.status["state"]["reason"]) == ("Aborting", "PodEvicted")


def test_a_job_that_grows_or_shrinks_is_not_evicted() -> None:
    policies = [when("PodEvicted", "AbortJob")]
    cluster = Cluster(job(task(replicas=3), policies=policies, minAvailable=1)).started()
    assert cluster.job is not None
    for replicas in (1, 4, 2):
        cluster.job["spec"]["tasks"][0]["replicas"] = replicas
        cluster.settle()
        leaving = {name for name, pod in cluster.pods.items() if "deletionTimestamp" in pod["metadata"]}
        assert leaving == {name for name in cluster.pods if int(name[-1]) >= replicas}
        cluster.sweep()
        cluster.started()
        assert (cluster.phase, cluster.status["running"]) == ("Running", replicas)


def test_a_change_of_the_job_is_acted_on_once() -> None:
    cluster = Cluster(job(policies=[when("JobUpdated")])).started()
    assert cluster.job is not None
    cluster.job["metadata"]["generation"] = 2
    for _ in range(3):
        cluster.settle()
        cluster.sweep()
    assert (cluster.status["version"], cluster.status["retryCount"]) == (1, 1)


def test_a_gang_that_is_broken_is_unknown() -> None:
    cluster = Cluster(job(task(replicas=3), policies=[when("Unknown", "TerminateJob")])).started()
    cluster.become("j-worker-0", "Failed")
    cluster.settle()
    assert cluster.phase == "Running"  # of three that must run two do, but its group does not say so yet
    cluster.enter("Unknown")
    cluster.settle()
    assert (cluster.phase, cluster.status["state"]["reason"]) == ("Terminating", "Unknown")


def test_a_task_whose_containers_do_not_stay_up_has_failed() -> None:
    on_failure = [when("TaskFailed", "TerminateJob")]
    cluster = Cluster(job(task(replicas=2, policies=on_failure, maxRetry=3))).started()
    for pod in cluster.pods.values():
        pod["status"]["containerStatuses"][0]["restartCount"] = 1
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.pods["j-worker-0"]["status"]["containerStatuses"][0]["restartCount"] = 3  # 3 + 1 > 3
    cluster.settle()
    assert (cluster.phase, cluster.status["state"]["reason"]) == ("Terminating", "TaskFailed")


def test_a_policy_without_effect_does_not_hide_another() -> None:
    policies = [when("PodRunning", "ResumeJob"), when("PodFailed", "TerminateJob")]
    cluster = Cluster(job(task(replicas=2), policies=policies)).started()
    cluster.now = START + 5
    cluster.become("j-worker-1", "Failed")
    cluster.settle()
    assert cluster.phase == "Terminating"
