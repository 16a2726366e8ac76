from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.clock import stamp
from kubesim.identity import KUBESIM
from kubesim.kinds import pods
from kubesim.kubelet import pod_lifecycle
from kubesim.kubelet.pod_lifecycle import (
    KubeletConfig,
    PodAction,
    PodStage,
    PodStep,
    next_step,
    pod_stage,
    restart_backoff,
    stage_start,
)
from tests.support.still_clock import NOON, StillClock

SCHEMA = pods.resource().schema
CLOCK, CONFIG = StillClock(), KubeletConfig(start_seconds=2)


def pod(restart="Never", annotations=None, init=(), deadline=None, **about):
    spec = {"nodeName": "n", "restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}
    if init:
        spec["initContainers"] = [{"name": name, "image": "i", "restartPolicy": policy} for name, policy in init]
    if deadline:
        spec["activeDeadlineSeconds"] = deadline
    about = {"name": "p", "namespace": "ns", "uid": "U", "creationTimestamp": stamp(NOON), **about}
    if annotations:
        about["annotations"] = {f"kubesim.dev/{key}": value for key, value in annotations.items()}
    return {"metadata": about, "spec": spec, "status": {"phase": "Pending"}}


def admitted(**more):
    found = pod(**more)
    pod_lifecycle.admit(found, NOON, "172.16.0.1", "10.0.0.2", KUBESIM)
    return found


def running(**more):
    found = admitted(**more)
    pod_lifecycle.start(found, NOON, KUBESIM)
    return found


def states(found):
    # The server takes these edits as they are.
    assert not SCHEMA.mistyped(found) and not SCHEMA.prune(copy.deepcopy(found))
    status = found["status"]
    conditions = {entry["type"]: entry["status"] for entry in status["conditions"]}
    return (
        status["phase"],
        list(status["containerStatuses"][0]["state"]),
        conditions["Ready"],
        conditions["Initialized"],
    )


def step(found, entered=NOON, deleted=None, clock=CLOCK):
    return next_step(found, entered, deleted, clock, CONFIG)


def test_bound_pod_is_admitted_then_started():
    found = pod()
    assert step(found) == PodStep(PodAction.ADMIT, NOON)
    found = admitted()
    assert pod_stage(found) is PodStage.STARTING
    assert states(found) == ("Pending", ["waiting"], "False", "True")
    assert found["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    assert step(found) == PodStep(PodAction.START, NOON + 2)
    found = running()
    assert pod_stage(found) is PodStage.RUNNING
    assert states(found) == ("Running", ["running"], "True", "True")
    assert step(found) is None


def test_init_containers_are_done_before_and_those_that_stay_run_along():
    found = admitted(init=[("once", None), ("beside", "Always")])
    assert found["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert states(found)[3] == "False"
    pod_lifecycle.start(found, NOON + 1, KUBESIM)
    once, beside = found["status"]["initContainerStatuses"]
    assert once["state"]["terminated"]["exitCode"] == 0
    assert "running" in beside["state"]
    assert (once["ready"], beside["ready"]) == (True, True)
    pod_lifecycle.expire(found, NOON + 9, KUBESIM)
    assert "terminated" in found["status"]["initContainerStatuses"][1]["state"]


@pytest.mark.parametrize(
    ("annotations", "due"),
    [({"run-seconds": "30"}, 30), ({"fail": "true"}, 0), ({"fail": "1 after 8", "run-seconds": "30"}, 8)],
)
def test_containers_end_when_their_program_does(annotations, due):
    assert step(running(annotations=annotations)) == PodStep(PodAction.EXIT, NOON + due)
    fast = step(running(annotations=annotations), clock=StillClock(speed=10))
    assert fast == PodStep(PodAction.EXIT, NOON + due / 10)


@pytest.mark.parametrize(
    ("restart", "fail", "phase"),
    [("Never", "0", "Succeeded"), ("Never", "3", "Failed"), ("OnFailure", "0", "Succeeded")],
)
def test_pod_phase_after_exit(restart, fail, phase):
    found = running(restart=restart, annotations={"run-seconds": "5", "fail": fail})
    pod_lifecycle.exit_containers(found, NOON + 5, NOON, CLOCK, CONFIG)
    assert states(found)[:3] == (phase, ["terminated"], "False")
    end = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["startedAt"], end["finishedAt"]) == (int(fail), stamp(NOON), stamp(NOON + 5))
    assert step(found) is None


@pytest.mark.parametrize(("fail", "phase"), [("3", "Failed"), ("0", "Succeeded")])
def test_a_pod_that_says_when_it_ends_does_so_although_others_of_its_policy_never_end(fail, phase):
    found = running(restart="Always", annotations={"run-seconds": "5", "fail": fail})
    pod_lifecycle.exit_containers(found, NOON + 5, NOON, CLOCK, CONFIG)
    assert found["status"]["phase"] == phase


def with_command(found, script):
    found["spec"]["containers"][0] |= {"command": ["/bin/sh"], "args": ["-c", script]}
    return found


def test_containers_end_when_their_command_does():
    assert step(with_command(running(), "sleep 7 && exit 3")) == PodStep(PodAction.EXIT, NOON + 7)
    annotated = running(annotations={"run-seconds": "30"})
    assert step(with_command(annotated, "sleep 7 && exit 3")) == PodStep(PodAction.EXIT, NOON + 30)
    assert step(with_command(running(), "sleep 7; python train.py")) is None


@pytest.mark.parametrize(
    ("restart", "script", "phase"),
    [
        ("Never", "sleep 5", "Succeeded"),
        ("Never", "sleep 5 && exit 3", "Failed"),
        ("OnFailure", "sleep 5", "Succeeded"),
        ("OnFailure", "sleep 5 && exit 3", "Running"),
        ("Always", "sleep 5", "Running"),
        ("Always", "sleep 5 && exit 3", "Running"),
    ],
)
def test_restart_policy_applies_to_containers_that_end_by_their_command(restart, script, phase):
    found = with_command(running(restart=restart), script)
    pod_lifecycle.exit_containers(found, NOON + 5, NOON, CLOCK, CONFIG)
    assert found["status"]["phase"] == phase
    assert found["status"]["containerStatuses"][0]["restartCount"] == int(phase == "Running")


def test_pod_of_two_commands_ends_with_the_last_and_fails_if_one_does():
    found = with_command(running(), "sleep 5 && exit 3")
    found["spec"]["containers"].append({"name": "d", "image": "i", "command": ["sleep", "9"]})
    assert step(found) == PodStep(PodAction.EXIT, NOON + 9)
    pod_lifecycle.exit_containers(found, NOON + 9, NOON, CLOCK, CONFIG)
    assert found["status"]["phase"] == "Failed"
    found["spec"]["containers"].append({"name": "e", "image": "i"})
    assert step(found | {"status": running()["status"]}) is None


def test_containers_that_failed_are_restarted_at_once_and_then_ever_later():
    found = running(restart="OnFailure", annotations={"run-seconds": "5", "fail": "3"})
    at = NOON
    for restarts, pause in enumerate([0, 10, 20, 40, 80, 160, 300, 300]):
        pod_lifecycle.exit_containers(found, at + 5, at, CLOCK, CONFIG)
        entry = found["status"]["containerStatuses"][0]
        assert found["status"]["phase"] == "Running"
        assert entry["lastState"]["terminated"]["exitCode"] == 3
        if pause:
            assert pod_stage(found) is PodStage.BACKING_OFF
            assert stage_start(found) == at + 5
            assert entry["restartCount"] == restarts
            assert step(found, at + 5) == PodStep(PodAction.RESTART, at + 5 + pause)
            pod_lifecycle.restart(found, at + 5 + pause, KUBESIM)
        assert pod_stage(found) is PodStage.RUNNING
        assert found["status"]["containerStatuses"][0]["restartCount"] == restarts + 1
        at += 5 + pause


def test_a_container_that_ran_long_enough_is_restarted_as_if_new():
    assert restart_backoff(5, ran=599) == 160
    assert restart_backoff(5, ran=600) == 0


def test_the_deadline_counts_from_the_start_of_the_pod():
    found = running(deadline=60, annotations={"run-seconds": "100"})
    assert step(found) == PodStep(PodAction.EXPIRE, NOON + 60)
    assert step(running(deadline=60, annotations={"run-seconds": "10"})) == PodStep(PodAction.EXIT, NOON + 10)
    pod_lifecycle.expire(found, NOON + 60, KUBESIM)
    assert states(found)[:2] == ("Failed", ["terminated"])
    assert found["status"]["reason"] == "DeadlineExceeded"


def deleted(found, grace=30):
    found["metadata"] |= {"deletionTimestamp": stamp(NOON + grace), "deletionGracePeriodSeconds": grace}
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (deleted(pod()), PodStep(PodAction.STOP, NOON)),  # nothing runs, so nothing must be waited for
        (deleted(admitted()), PodStep(PodAction.STOP, NOON)),
        (deleted(running()), PodStep(PodAction.STOP, NOON + 30)),
        (deleted(running(annotations={"stop-seconds": "4"})), PodStep(PodAction.STOP, NOON + 4)),
        (deleted(running(annotations={"stop-seconds": "400"})), PodStep(PodAction.STOP, NOON + 30)),
        # It ends by itself before it is killed, or long after.
        (deleted(running(annotations={"run-seconds": "7"})), PodStep(PodAction.EXIT, NOON + 7)),
        (deleted(running(annotations={"run-seconds": "70"})), PodStep(PodAction.STOP, NOON + 30)),
        (
            deleted(running(annotations={"run-seconds": "nonsense"})),
            PodStep(PodAction.STOP, NOON),
        ),  # it was never started
        (deleted(running(), 0), PodStep(PodAction.STOP, NOON)),
    ],
)
def test_deletion_with_grace(found, expected):
    assert step(found) == expected


def test_grace_period_counts_from_observed_deletion_time():
    assert step(deleted(running()), deleted=NOON + 0.75) == PodStep(PodAction.STOP, NOON + 30.75)


@pytest.mark.parametrize(
    ("annotations", "code"), [({}, 137), ({"stop-seconds": "1"}, 143), ({"stop-seconds": "99"}, 137)]
)
def test_stopped_container_exit_code_depends_on_stop_seconds(annotations, code):
    found = deleted(running(annotations=annotations))
    pod_lifecycle.stop(found, NOON + 30, KUBESIM)
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert step(found) == PodStep(PodAction.REMOVE, NOON)


def test_a_pod_that_ends_while_it_is_deleted_is_not_restarted():
    found = deleted(running(restart="Always", annotations={"run-seconds": "7"}))
    pod_lifecycle.exit_containers(found, NOON + 7, NOON, CLOCK, CONFIG)
    assert found["status"]["phase"] == "Succeeded"


def test_only_a_finalizer_holds_a_pod_whose_grace_is_over():
    found = deleted(running(), 0)
    pod_lifecycle.stop(found, NOON, KUBESIM)
    assert step(found) is None


def test_a_program_that_means_nothing_is_shown_and_waits():
    found = admitted(annotations={"run-seconds": "soon"})
    assert step(found) == PodStep(PodAction.START, NOON)
    pod_lifecycle.start(found, NOON, KUBESIM)
    assert pod_stage(found) is PodStage.MISCONFIGURED
    assert "kubesim.dev/run-seconds" in found["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert step(found) is None
    found["metadata"]["annotations"]["kubesim.dev/run-seconds"] = "5"
    assert step(found).action is PodAction.START


def test_a_pod_that_was_called_unready_says_that_it_is_ready():
    found = running()
    for entry in found["status"]["conditions"]:
        if entry["type"] == "Ready":
            entry["status"] = "False"
    assert step(found) == PodStep(PodAction.CONFIRM, NOON)
    pod_lifecycle.confirm(found, NOON + 1)
    assert states(found)[2] == "True"
    assert step(found) is None


texts = st.sampled_from(["0", "3", "12.5", "nonsense"])


@given(
    st.sampled_from(["Never", "OnFailure", "Always"]),
    st.dictionaries(st.sampled_from(["run-seconds", "fail", "stop-seconds"]), texts),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(0, 40),
    st.sampled_from([1.0, 8.0]),
)
def test_pod_lifecycle_progresses_and_is_derived_from_status(restart, annotations, deadline, deletion, speed):
    found, clock = pod(restart=restart, annotations=annotations, deadline=deadline), StillClock(speed)
    acts = {
        PodAction.ADMIT: lambda at, _: pod_lifecycle.admit(found, at, "172.16.0.1", "10.0.0.2", KUBESIM),
        PodAction.START: lambda at, _: pod_lifecycle.start(found, at, KUBESIM),
        PodAction.RESTART: lambda at, _: pod_lifecycle.restart(found, at, KUBESIM),
        PodAction.EXIT: lambda at, entered: pod_lifecycle.exit_containers(found, at, entered, clock, CONFIG),
        PodAction.EXPIRE: lambda at, _: pod_lifecycle.expire(found, at, KUBESIM),
        PodAction.STOP: lambda at, _: pod_lifecycle.stop(found, at, KUBESIM),
    }
    entered = NOON
    for number in range(30):
        if number == deletion:
            deleted(found, 30)
        due = next_step(found, entered, entered if "deletionTimestamp" in found["metadata"] else None, clock, CONFIG)
        if due is None or due.action is PodAction.REMOVE:
            break
        assert due.due >= entered or due.action is PodAction.EXPIRE
        assert due.action is not PodAction.CONFIRM
        before = copy.deepcopy(found)
        acts[due.action](max(due.due, entered), entered)
        assert found != before
        entered = max(due.due, entered)
        if pod_stage(found) not in {PodStage.OVER, PodStage.NEW}:
            assert abs(stage_start(found) - entered) <= 1 or pod_stage(found) in {
                PodStage.STARTING,
                PodStage.MISCONFIGURED,
            }
        admitted_once = "startTime" in found["status"]  # a pod may be deleted before
        assert len(found["status"].get("containerStatuses", ())) == (1 if admitted_once else 0)
        ready = next(e["status"] for e in found["status"]["conditions"] if e["type"] == "Ready")
        assert (ready == "True") == (pod_stage(found) is PodStage.RUNNING)
