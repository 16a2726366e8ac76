"""How many pods a ReplicaSet has, which of them go, and what it says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.clock import parse_time
from kubesim.controllers.apps.replicasets import new_pod, pods_to_delete, seconds_until_available, status_of
from tests.support.still_clock import StillClock
from tests.support.workloads import pod, replica_set

NOON = "2024-05-01T12:00:00Z"


def names(pods):
    return [one["metadata"]["name"] for one in pods]


# ---- which go ---------------------------------------------------------------------------------------------


def test_replica_set_deletes_least_advanced_pods_first():
    pods = [
        pod("ready"),
        pod("costly", **{"controller.kubernetes.io/pod-deletion-cost": "10"}),
        pod("cheap", **{"controller.kubernetes.io/pod-deletion-cost": "-10"}),
        pod("young", created="2024-05-01T00:00:09Z"),
        pod("unready", ready=False),
        pod("lost", phase="Unknown", ready=False),
        pod("pending", phase="Pending", ready=False),
        pod("homeless", node="", phase="Pending", ready=False),
    ]
    order = ["homeless", "pending", "lost", "unready", "cheap", "young", "ready", "costly"]
    for count in range(len(pods) + 1):
        assert names(pods_to_delete(pods, count)) == order[:count]


@pytest.mark.parametrize("text", ["", "x", "1.5", "9" * 5000, "--1", "\u0665"])
def test_malformed_deletion_cost_counts_as_zero(text):
    odd = pod("odd", **{"controller.kubernetes.io/pod-deletion-cost": text})
    cheap = pod("cheap", **{"controller.kubernetes.io/pod-deletion-cost": "-1"})
    assert names(pods_to_delete([odd, cheap], 1)) == ["cheap"]


pods_there = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        node=st.sampled_from(["", "n"]),
        phase=st.sampled_from(["Pending", "Running", "Unknown"]),
        ready=st.booleans(),
    ),
    max_size=12,
)


@given(pods_there, st.integers(0, 14), st.randoms())
def test_replica_set_deletes_unassigned_pods_before_ready_ones(pods, count, chance):
    gone = pods_to_delete(pods, count)
    assert len(gone) == min(count, len(pods))
    kept = [one for one in pods if one not in gone]
    if any(one["spec"].get("nodeName") for one in gone):
        assert all(one["spec"].get("nodeName") for one in kept)
    shuffled = list(pods)
    chance.shuffle(shuffled)
    assert pods_to_delete(shuffled, count) == gone  # in whatever order they are known


# ---- status -----------------------------------------------------------------------------------------------


def test_counts():
    labels = {"app": "web", "pod-template-hash": "s"}
    pods = [pod("a", labels=labels), pod("b"), pod("c", labels=labels, ready=False)]
    status, again = status_of(replica_set(), pods, StillClock())
    assert status == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,  # b lacks the hash
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }
    assert again is None
    nothing = {"replicas": 0, "terminatingReplicas": 2, "observedGeneration": 1}
    assert status_of(replica_set(), [], StillClock(), leaving=2) == (nothing, None)


def test_a_pod_is_available_after_it_has_been_ready_for_long_enough():
    owner = replica_set()
    owner["spec"]["minReadySeconds"] = 30
    pods = [pod("a", since="2024-05-01T11:59:20Z"), pod("b", since="2024-05-01T11:59:50Z"), pod("c", ready=False)]
    status, again = status_of(owner, pods, StillClock())  # 40 and 10 seconds ago
    assert status["readyReplicas"] == 2
    assert status["availableReplicas"] == 1
    assert again == pytest.approx(20)  # 30 - 10


def test_min_ready_seconds_scale_with_clock_speed():
    clock = StillClock(speed=10)
    young = pod("a", since="2024-05-01T11:59:58Z")  # 2 seconds on the wall are 20 of the cluster
    assert seconds_until_available(young, 30, clock) == pytest.approx(10)
    assert clock.real(10) == 1
    assert seconds_until_available(young, 20, clock) == pytest.approx(0)
    assert seconds_until_available(young, 0, clock) == 0
    assert seconds_until_available(pod("b", ready=False), 0, clock) is None


def test_replica_failure_condition_lasts_as_long_as_the_failure():
    owner = replica_set()
    status, _ = status_of(owner, [], StillClock(), ("FailedCreate", "exceeded quota"))
    (said,) = status["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert said["message"] == "exceeded quota" and said["lastTransitionTime"] == NOON
    owner["status"] = status
    later, _ = status_of(
        owner, [], StillClock(at=parse_time("2024-05-01T12:05:00Z")), ("FailedCreate", "still exceeded")
    )
    assert later["conditions"][0]["lastTransitionTime"] == NOON  # since then
    owner["status"] = {**later, "conditions": [{"type": "Mine", "status": "True"}, *later["conditions"]]}
    well, _ = status_of(owner, [], StillClock())
    assert well["conditions"] == [{"type": "Mine", "status": "True"}]


# ---- pods -------------------------------------------------------------------------------------------------


def test_new_pod_of_a_replica_set():
    owner = replica_set("web-x")
    owner["spec"]["template"]["metadata"] |= {"name": "ignored", "annotations": {"a": "b"}, "finalizers": ["x/y"]}
    made = new_pod(owner)
    about = made["metadata"]
    assert about["generateName"] == "web-x-" and "name" not in about
    assert about["labels"]["pod-template-hash"] == "web-x"
    assert (about["annotations"], about["finalizers"]) == ({"a": "b"}, ["x/y"])
    (reference,) = about["ownerReferences"]
    assert reference == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-x",
        "uid": "uid-of-web-x",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made["spec"]["containers"][0]["image"] = "changed"
    assert owner["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
