"""The phases of a job: every action from every phase, and what its pods make of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.controllers.jobs.phases import AFTER
from tests.support.job_model import START, Cluster, job, task

STOPS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}

TABLE: dict[str, dict[str, str]] = {
    "Pending": {**STOPS, "RestartJob": "Restarting"},
    "Running": {**STOPS, "RestartJob": "Restarting"},
    "Restarting": STOPS,
    "Aborting": {"ResumeJob": "Restarting", "TerminateJob": "Terminating"},
    "Aborted": {"ResumeJob": "Restarting", "TerminateJob": "Terminating"},
    "Completing": {},
    "Completed": {},
    "Terminating": {},
    "Terminated": {},
    "Failed": {},
}
"""What an action makes of a phase; where it is not here, nothing."""

ACTIONS = ("AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob", "RestartTask", "SyncJob", "EnqueueJob")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("phase", TABLE)
def test_action_moves_job_to_phase_in_table(phase: str, action: str) -> None:
    cluster = Cluster(job(task(replicas=2)))
    cluster.started()
    assert cluster.job is not None
    cluster.job["status"]["state"]["phase"] = phase
    cluster.command(action)
    cluster.look()
    assert cluster.phase == TABLE[phase].get(action, phase)
    assert not cluster.commands
    assert cluster.status["version"] == (cluster.phase == "Restarting" != phase)
    assert cluster.status["retryCount"] == (action == "RestartJob" and cluster.phase == "Restarting" != phase)


@pytest.mark.parametrize("writes", range(4))
def test_a_command_is_obeyed_once_wherever_its_reader_dies(writes: int) -> None:
    cluster = Cluster(job(task(replicas=2))).started()
    cluster.command("RestartJob")
    cluster.look(writes)
    for _ in range(3):
        cluster.settle()
        cluster.sweep()
    assert (cluster.status["version"], cluster.status["retryCount"]) == (1, 1)


def test_repeated_action_causes_no_further_phase_change() -> None:
    for ways in AFTER.values():
        for action, goal in ways.items():
            assert action not in AFTER.get(goal, {})


def test_two_commands_are_executed_in_order() -> None:
    cluster = Cluster(job(task(replicas=1))).started()
    cluster.command("AbortJob")
    cluster.command("ResumeJob")
    cluster.settle()
    cluster.sweep()
    cluster.settle()
    assert [entry["status"] for entry in cluster.status["conditions"]][2:] == ["Aborting", "Restarting", "Pending"]


@pytest.mark.parametrize(
    ("spec", "ends", "phase", "reason"),
    [
        # All two pods must start, so all two must succeed.
        ({}, ["Succeeded", "Succeeded"], "Completed", "Succeeded"),
        ({}, ["Succeeded", "Failed"], "Failed", "PodFailed"),
        ({}, ["Succeeded", "Running"], "Running", ""),
        # One must start, so one is enough, once the other has ended too.
        ({"minAvailable": 1}, ["Succeeded", "Failed"], "Completed", "Succeeded"),
        ({"minAvailable": 1}, ["Succeeded", "Running"], "Running", ""),
        ({"minAvailable": 1}, ["Failed", "Failed"], "Failed", "PodFailed"),
        # minSuccess says both: with so many it is complete at once, with fewer it has failed.
        ({"minSuccess": 1}, ["Succeeded", "Running"], "Completed", "MinSuccess"),
        ({"minSuccess": 1}, ["Failed", "Failed"], "Failed", "MinSuccess"),
        ({"minSuccess": 2, "minAvailable": 1}, ["Succeeded", "Failed"], "Failed", "MinSuccess"),
    ],
)
def test_job_phase_follows_pod_results(spec: dict[str, Any], ends: list[str], phase: str, reason: str) -> None:
    cluster = Cluster(job(task(replicas=2), **spec)).started()
    for index, end in enumerate(ends):
        cluster.become(f"j-worker-{index}", end)
    cluster.settle()
    assert (cluster.phase, cluster.status["state"].get("reason", "")) == (phase, reason)


def test_the_minimum_of_a_task_must_succeed_if_the_job_promises_it() -> None:
    # 2 pods of a must start and 1 of b: 3 in all. One of a fails, so although 3 of 4 succeed, a has not.
    tasks = task("a", 2, minAvailable=2), task("b", 2, minAvailable=1)
    cluster = Cluster(job(*tasks, minAvailable=3)).started()
    for name, end in {"a-0": "Failed", "a-1": "Succeeded", "b-0": "Succeeded", "b-1": "Succeeded"}.items():
        cluster.become(f"j-{name}", end)
    cluster.settle()
    assert (cluster.phase, cluster.status["state"]["reason"]) == ("Failed", "TaskFailed")


def test_a_job_runs_when_enough_of_it_does() -> None:
    cluster = Cluster(job(task(replicas=3), minAvailable=2))
    cluster.settle()
    assert (cluster.phase, len(cluster.pods)) == ("Pending", 0)  # its queue has not let it in
    cluster.enter()
    cluster.settle()
    assert (cluster.phase, cluster.status["pending"]) == ("Pending", 3)
    cluster.become("j-worker-0", "Running")
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.become("j-worker-2", "Running")
    cluster.settle()
    assert (cluster.phase, cluster.status["running"], cluster.status["pending"]) == ("Running", 2, 1)


def test_a_job_that_is_stopped_waits_for_its_pods_and_keeps_what_has_ended() -> None:
    cluster = Cluster(job(task(replicas=3), minAvailable=1)).started()
    cluster.become("j-worker-0", "Succeeded")
    cluster.settle()
    cluster.command("AbortJob")
    cluster.settle()
    assert (cluster.phase, cluster.status["terminating"], cluster.status["succeeded"]) == ("Aborting", 2, 1)
    assert cluster.group is not None
    cluster.sweep()
    cluster.settle()
    assert (cluster.phase, list(cluster.pods), cluster.group) == ("Aborted", ["j-worker-0"], None)
    cluster.command("ResumeJob")
    cluster.settle()
    cluster.sweep()
    cluster.started()
    assert (cluster.phase, cluster.status["version"], cluster.status["running"]) == ("Running", 1, 3)


def test_a_pod_that_will_not_go_does_not_hold_up_a_restart() -> None:
    cluster = Cluster(job(task(replicas=3), minAvailable=2)).started()
    cluster.command("RestartJob")
    cluster.settle()
    stuck = cluster.pods["j-worker-1"]
    cluster.sweep()
    cluster.pods["j-worker-1"] = stuck
    cluster.started()
    assert (cluster.phase, cluster.status["running"], cluster.status["terminating"]) == ("Running", 2, 1)
    cluster.sweep()
    cluster.started()
    assert cluster.status["running"] == 3


def test_a_job_that_is_over_goes_in_time() -> None:
    cluster = Cluster(job(task(), ttlSecondsAfterFinished=10)).started()
    cluster.now = START + 100
    cluster.become("j-worker-0", "Succeeded")
    cluster.settle()
    assert cluster.plan().again == START + 110
    cluster.now = START + 109
    cluster.settle()
    assert cluster.phase == "Completed"
    cluster.now = START + 110
    cluster.settle()
    assert cluster.job is None


def test_completed_job_status_has_running_duration() -> None:
    cluster = Cluster(job(task())).started()
    cluster.now += 3725  # 1 h 2 min 5 s
    cluster.become("j-worker-0", "Succeeded")
    cluster.settle()
    assert cluster.status["runningDuration"] == "1h2m5s"


@given(st.lists(st.tuples(st.sampled_from(["fail", "evict", "vanish"]), st.integers(0, 2), st.integers(0, 3))))
def test_every_pod_that_is_lost_counts_once(losses: list[tuple[str, int, int]]) -> None:
    """One policy, no end of retries: as many restarts of pods as pods were lost, wherever the controller died."""
    policy = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartPod"}]
    cluster = Cluster(job(task(replicas=3), policies=policy, maxRetry=1000, minAvailable=1)).started()
    for number, (how, index, writes) in enumerate(losses, start=1):
        name = f"j-worker-{index}"
        match how:
            case "fail":
                cluster.become(name, "Failed")
            case "evict":
                cluster.evict(name)
            case "vanish":
                cluster.vanish(name)
        cluster.look(writes)
        for _ in range(3):
            cluster.settle()
            cluster.sweep()
        cluster.started()
        assert cluster.status["retryCount"] == number
        assert len(cluster.made) == 3 + number


# ---- containers that cannot start ------------------------------------------------------------------------------------


def test_the_state_names_a_container_that_cannot_start_until_it_does() -> None:
    cluster = Cluster(job(task(replicas=2))).started()
    assert "message" not in cluster.status["state"]
    for name in ("j-worker-0", "j-worker-1"):
        cluster.pods[name]["spec"]["nodeName"] = "n"
    stuck = cluster.pods["j-worker-1"]["status"]["containerStatuses"][0]
    since = cluster.status["state"]["lastTransitionTime"]
    for reason in ("ErrImagePull", "ImagePullBackOff"):  # in turn: the status is written once
        stuck["state"] = {"waiting": {"reason": reason, "message": f"{reason} says something else"}}
        cluster.settle()
        assert cluster.status["state"] == {
            "phase": "Running",
            "lastTransitionTime": since,
            "reason": "ContainersBlocked",
            "message": "1 of 2 running pods cannot start its container: pod j-worker-1, container c: ImagePullBackOff",
        }
    stuck["state"] = {"running": {}}
    cluster.settle()
    assert cluster.status["state"] == {"phase": "Running", "lastTransitionTime": since}


def test_blocked_containers_reason_does_not_hide_abort_reason() -> None:
    cluster = Cluster(job(task(replicas=2))).started()
    cluster.pods["j-worker-1"]["spec"]["nodeName"] = "n"
    cluster.pods["j-worker-1"]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    cluster.settle()
    assert cluster.status["state"]["reason"] == "ContainersBlocked"
    cluster.command("AbortJob")
    cluster.settle()
    assert cluster.status["state"]["reason"] == "CommandIssued"
