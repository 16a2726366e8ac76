from __future__ import annotations

import pytest

from kubesim.clock import stamp
from kubesim.controllers.jobs.job_plan import plan_job
from kubesim.controllers.jobs.job_pods import INDEX, TRACKING, new_pod
from kubesim.controllers.jobs.job_policies import FAILURES, FailureAction, failure_action, matched_success_rule
from tests.support.still_clock import NOON, StillClock

START = "2024-05-01T11:00:00Z"
CLOCK = StillClock()


def job(status=None, **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"parallelism": 2, "completions": 3, "backoffLimit": 6, "template": template, **spec}
    status = {"startTime": START} | (status or {})
    about = {"name": "j", "namespace": "ns", "uid": "J"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec, "status": status}


def pod(uid, phase="Failed", *, code=1, index=None, failures=0, finished=START, conditions=()):
    about = {"name": uid, "namespace": "ns", "uid": uid, "creationTimestamp": START, "finalizers": [TRACKING]}
    if index is not None:
        about["annotations"] = {INDEX: str(index), FAILURES: str(failures)}
    over = phase in ("Succeeded", "Failed")
    state = {"terminated": {"finishedAt": finished, "exitCode": code if phase == "Failed" else 0}} if over else {}
    entries = [{"name": "c", "state": state or {"running": {"startedAt": START}}}]
    return {
        "metadata": about,
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "containerStatuses": entries, "conditions": list(conditions)},
    }


def rules(*found):
    return {"podFailurePolicy": {"rules": list(found)}}


def codes(action, *values, operator="In", **more):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("policy", "failed", "action"),
    [
        ({}, pod("p"), FailureAction.COUNT),
        (rules(codes("FailJob", 42)), pod("p", code=42), FailureAction.FAIL_JOB),
        (rules(codes("FailJob", 42)), pod("p", code=41), FailureAction.COUNT),
        (rules(codes("FailJob", 42, operator="NotIn")), pod("p", code=41), FailureAction.FAIL_JOB),
        (rules(codes("FailJob", 42, containerName="other")), pod("p", code=42), FailureAction.COUNT),
        (rules(codes("Ignore", 42), codes("FailJob", 42)), pod("p", code=42), FailureAction.IGNORE),
        (rules(DISRUPTED), pod("p", conditions=[{"type": "DisruptionTarget", "status": "True"}]), FailureAction.IGNORE),
        (rules(DISRUPTED), pod("p", conditions=[{"type": "DisruptionTarget", "status": "False"}]), FailureAction.COUNT),
    ],
)
def test_the_first_rule_that_matches_judges_a_failure(policy, failed, action):
    assert failure_action(job(**policy), failed)[0] is action


def test_fail_job_action_fails_the_job():
    result = plan_job(job(**rules(codes("FailJob", 42))), [pod("p", code=42), pod("r", "Running")], CLOCK)
    entry = result.status["conditions"][0]
    assert (entry["type"], entry["reason"]) == ("FailureTarget", "PodFailurePolicy")
    assert entry["message"] == "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 0"
    assert [found["metadata"]["uid"] for found in result.delete] == ["r"]


def test_failures_that_are_ignored_count_for_nothing():
    jobbed = job(backoffLimit=0, **rules(codes("Ignore", 42)))
    result = plan_job(jobbed, [pod("p", code=42)], CLOCK)
    assert [found["metadata"]["uid"] for found in result.release] == ["p"]
    assert result.status["uncountedTerminatedPods"] == {}
    assert "conditions" not in result.status
    assert result.create == [None, None]


INDEXED = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1}


def test_each_index_has_its_own_limit():
    jobbed = job(**INDEXED)
    # Index 0 has failed for the first time and may try again; index 1 had already failed once.
    seen = [pod("a", index=0), pod("b", index=1, failures=1)]
    result = plan_job(jobbed, seen, CLOCK)
    assert result.status["failedIndexes"] == "1"
    assert result.create == [0, 2]
    assert new_pod(jobbed, 0, result.replaced[0])["metadata"]["annotations"][FAILURES] == "1"
    assert new_pod(jobbed, 2)["metadata"]["annotations"][FAILURES] == "0"
    # The failed pod of index 0 is kept until its successor is there, which must know of it.
    assert [found["metadata"]["uid"] for found in result.release] == ["b"]
    jobbed["status"] = result.status
    later = plan_job(jobbed, [pod("a", index=0), pod("c", "Running", index=0, failures=1)], CLOCK)
    assert [found["metadata"]["uid"] for found in later.release] == ["a"]


def test_backoff_applies_per_index():
    seen = [pod("a", index=0, finished=stamp(NOON - 4))]
    result = plan_job(job(**INDEXED), seen, CLOCK)
    assert result.create == [1]
    assert result.again == 6  # 10 seconds after its first failure, of which 4 have passed


def test_job_ends_when_every_index_succeeded_or_failed():
    jobbed = job({"completedIndexes": "0,2", "succeeded": 2}, **INDEXED)
    result = plan_job(jobbed, [pod("b", index=1, failures=1)], CLOCK)
    assert result.status["conditions"][0]["reason"] == "FailedIndexes"


def test_max_failed_indexes_fails_the_job():
    jobbed = job(**INDEXED, maxFailedIndexes=0)
    result = plan_job(jobbed, [pod("b", index=1, failures=1)], CLOCK)
    assert result.status["conditions"][0]["reason"] == "MaxFailedIndexesExceeded"


def test_a_rule_can_end_an_index():
    policy = rules(codes("FailIndex", 42))
    result = plan_job(job(**INDEXED, **policy), [pod("a", index=0, code=42)], CLOCK)
    assert result.status["failedIndexes"] == "0"
    assert result.create == [1, 2]


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        ({"succeededCount": 2}, {0, 3}, True),
        ({"succeededCount": 2}, {0}, False),
        ({"succeededIndexes": "0"}, {0, 3}, True),
        ({"succeededIndexes": "0-2"}, {0, 3}, False),
        ({"succeededIndexes": "0-2", "succeededCount": 1}, {2}, True),
    ],
)
def test_success_policy_with_fewer_indexes(rule, done, met):
    jobbed = job(completions=5, successPolicy={"rules": [rule]})
    assert matched_success_rule(jobbed, done) == ("Matched rules at index 0" if met else None)


def test_success_policy_deletes_remaining_pods_without_counting_them():
    jobbed = job(completionMode="Indexed", successPolicy={"rules": [{"succeededIndexes": "0"}]})
    result = plan_job(jobbed, [pod("a", "Succeeded", index=0), pod("r", "Running", index=1)], CLOCK)
    entry = result.status["conditions"][0]
    assert (entry["type"], entry["reason"]) == ("SuccessCriteriaMet", "SuccessPolicy")
    assert [found["metadata"]["uid"] for found in result.delete] == ["r"]
    assert result.status["uncountedTerminatedPods"] == {}
