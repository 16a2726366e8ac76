"""What a Deployment says of itself, and the ReplicaSet it makes."""

from __future__ import annotations

from kubesim.clock import parse_time
from kubesim.controllers.apps.deployments import build_replica_set, status_of
from kubesim.controllers.apps.rollout import FORMER_REVISIONS, REVISION, replica_set_annotations
from kubesim.controllers.conditions import find_condition
from tests.support.still_clock import StillClock
from tests.support.workloads import deployment, replica_set

NOON, LATER = "2024-05-01T12:00:00Z", "2024-05-01T12:10:01Z"  # 601 seconds


def said(one, sets, now=NOON):
    one["status"] = status_of(one, sets, now, StillClock(at=parse_time(now)))
    return one["status"]


def progressing(status):
    found = find_condition(status, "Progressing")
    return found["status"], found["reason"]


def available(status):
    return find_condition(status, "Available")["status"]


def test_deployment_status_sums_its_replica_sets():
    sets = [replica_set("a", 2, "web:1", available=2, age=1), replica_set("b", 2, "web:2", available=1)]
    status = said(deployment(replicas=3, image="web:2"), sets)
    assert {name: count for name, count in status.items() if name != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 1,  # of four that are told
        "terminatingReplicas": 0,
    }
    assert available(status) == "True"  # three of three
    assert progressing(status) == ("True", "NewReplicaSetCreated")


def test_deployment_available_condition_respects_max_unavailable():
    # 25 % of 8: two may be missing
    for there, expected in ((8, "True"), (6, "True"), (5, "False")):
        status = said(deployment(replicas=8), [replica_set("a", 8, available=there)])
        assert available(status) == expected


def test_deployment_progressing_reasons_of_a_rollout():
    one = deployment(replicas=2)
    assert progressing(said(one, [])) == ("True", "NewReplicaSetCreated")
    assert progressing(said(one, [replica_set("a", 2)])) == ("True", "ReplicaSetUpdated")
    done = said(one, [replica_set("a", 2, available=2)])
    assert progressing(done) == ("True", "NewReplicaSetAvailable")
    assert find_condition(done, "Progressing")["message"] == 'ReplicaSet "a" has successfully progressed.'
    one["spec"]["template"] = deployment(image="web:2")["spec"]["template"]
    sets = [replica_set("a", 2, available=2, age=1), replica_set("b", 1, "web:2")]
    assert progressing(said(one, sets, LATER)) == ("True", "ReplicaSetUpdated")  # the deadline begins anew


def test_a_rollout_without_progress_is_late_after_its_deadline():
    one = deployment(replicas=2)
    stuck = [replica_set("a", 2)]
    said(one, stuck)
    assert progressing(said(one, stuck, "2024-05-01T12:10:00Z")) == ("True", "ReplicaSetUpdated")  # 600 seconds
    late = said(one, stuck, "2024-05-01T12:20:01Z")
    assert progressing(late) == ("False", "ProgressDeadlineExceeded")
    assert find_condition(late, "Progressing")["message"] == 'ReplicaSet "a" has timed out progressing.'
    assert progressing(said(one, stuck, "2024-05-01T13:00:00Z")) == ("False", "ProgressDeadlineExceeded")
    moved = said(one, [replica_set("a", 2, available=1)], "2024-05-01T13:00:01Z")
    assert progressing(moved) == ("True", "ReplicaSetUpdated")


def test_every_pod_that_becomes_available_is_progress():
    one = deployment(replicas=3)
    said(one, [replica_set("a", 3)])
    said(one, [replica_set("a", 3, available=1)], "2024-05-01T12:09:00Z")
    later = said(one, [replica_set("a", 3, available=1)], "2024-05-01T12:15:00Z")  # 900 seconds since the first
    assert progressing(later) == ("True", "ReplicaSetUpdated")


def test_deployment_pause_stops_progress_deadline():
    one = deployment(replicas=2)
    stuck = [replica_set("a", 2)]
    said(one, stuck)
    one["spec"]["paused"] = True
    assert progressing(said(one, stuck, LATER)) == ("Unknown", "DeploymentPaused")
    del one["spec"]["paused"]
    assert progressing(said(one, stuck, "2024-05-01T13:00:00Z")) == ("True", "ReplicaSetUpdated")


def test_transitions_have_the_time_of_the_status_and_updates_of_the_reason():
    one = deployment(replicas=1)
    said(one, [])
    done = find_condition(said(one, [replica_set("a", 1, available=1)], LATER), "Progressing")
    assert (done["lastTransitionTime"], done["lastUpdateTime"]) == (NOON, LATER)
    again = find_condition(said(one, [replica_set("a", 1, available=1)], "2024-05-01T13:00:00Z"), "Progressing")
    assert again == done  # nothing is written when nothing has changed


def test_deployment_reports_replica_failure():
    one = deployment(replicas=1)
    failing = replica_set("a", 1)
    failing["status"]["conditions"] = [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    ]
    found = find_condition(said(one, [failing]), "ReplicaFailure")
    assert (found["status"], found["reason"], found["message"]) == ("True", "FailedCreate", "exceeded quota")
    assert find_condition(said(one, [replica_set("a", 1)]), "ReplicaFailure") is None


def test_deployment_status_keeps_collision_count():
    one = deployment()
    one["status"] = {"collisionCount": 2}
    assert said(one, [])["collisionCount"] == 2


def test_replica_set_built_from_template():
    one = deployment(replicas=4, minReadySeconds=7)
    one["metadata"]["annotations"] = {
        "a": "b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deployment.kubernetes.io/revision": "8",
    }
    made = build_replica_set(one, [replica_set("old", 4, "web:0", available=4)], 9)
    short = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"d-{short}"
    assert made["metadata"]["annotations"] == {
        "a": "b",
        "deployment.kubernetes.io/revision": "9",
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",  # 25 % of 4 may be too many
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-d"
    spec = made["spec"]
    assert spec["replicas"] == 1  # 25 % of 4 may be too many
    assert spec["minReadySeconds"] == 7
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == made["metadata"]["labels"]
    assert one["spec"]["selector"] == {"matchLabels": {"app": "web"}}  # its own is left alone


def test_reused_replica_set_records_former_revisions():
    one, old = deployment(), replica_set("a", 2)
    one["metadata"]["annotations"] = {"kubernetes.io/change-cause": "back again", REVISION: "3"}
    old["metadata"]["annotations"] = {"kubernetes.io/change-cause": "the first", REVISION: "1", "kept": "yes"}
    said_now = replica_set_annotations(one, old, 4)
    assert said_now == {"kubernetes.io/change-cause": "back again", REVISION: "4", "kept": "yes", FORMER_REVISIONS: "1"}
    old["metadata"]["annotations"] = said_now
    assert replica_set_annotations(one, old, 4) == said_now
    assert replica_set_annotations(one, old, 7)[FORMER_REVISIONS] == "1,4"
    long = ",".join(["1234"] * 400)  # 1,999 characters; with the next one the first has to go
    old["metadata"]["annotations"] = {**said_now, FORMER_REVISIONS: long}
    assert replica_set_annotations(one, old, 5)[FORMER_REVISIONS] == f"{long.removeprefix('1234,')},4"
