from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.clock import parse_time, stamp
from kubesim.controllers.jobs.job_plan import is_finished, plan_job
from kubesim.controllers.jobs.job_pods import INDEX, TRACKING, new_pod
from tests.support.still_clock import NOON, StillClock

START = "2024-05-01T11:59:00Z"


def job(status=None, restart="Never", **spec):
    template = {
        "metadata": {"labels": {"job-name": "j"}, "annotations": {"kubesim.dev/run-seconds": "5"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"parallelism": 1, "backoffLimit": 6, "template": template, **spec}
    about = {"name": "j", "namespace": "ns", "uid": "J"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec, "status": status or {}}


def pod(uid, phase="Running", *, tracked=True, deleted=False, index=None, ready=False, finished=START, restarts=0):
    about = {"name": uid, "uid": uid, "creationTimestamp": START}
    if tracked:
        about["finalizers"] = [TRACKING]
    if deleted:
        about |= {"deletionTimestamp": stamp(NOON), "deletionGracePeriodSeconds": 30}
    if index is not None:
        about["annotations"] = {INDEX: str(index)}
    over = phase in ("Succeeded", "Failed")
    state = {"terminated": {"finishedAt": finished, "exitCode": 0}} if over else {"running": {"startedAt": START}}
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": START}],
        "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
    }
    return {"metadata": about, "spec": {"nodeName": "n"}, "status": status}


def uids(pods):
    return [found["metadata"]["uid"] for found in pods]


def kinds(status):
    return {entry["type"]: entry["status"] for entry in status.get("conditions", ())}


CLOCK = StillClock()


def test_new_job_creates_parallelism_pods():
    result = plan_job(job(parallelism=3, completions=5), [], CLOCK)
    assert result.create == [None] * 3
    assert result.status == {
        "startTime": stamp(NOON),
        "active": 3,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_job_creates_no_more_pods_than_remaining_completions():
    # 5 - 3 = 2 are left, one of them is running.
    seen = [pod("a", ready=True)]
    result = plan_job(job({"succeeded": 3, "startTime": START}, parallelism=3, completions=5), seen, CLOCK)
    assert result.create == [None]
    assert (result.status["active"], result.status["ready"]) == (2, 1)


def test_finished_pods_are_counted_once_via_uncounted_terminated_pods():
    jobbed = job({"startTime": START}, completions=2, parallelism=2)
    # First it is noted who is to be counted, and only these lose their finalizer.
    first = plan_job(jobbed, [pod("a", "Succeeded"), pod("b")], CLOCK)
    assert first.status["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert uids(first.release) == ["a"]
    assert "succeeded" not in first.status
    # Written, but the finalizer is still there: the same again.
    jobbed["status"] = first.status
    second = plan_job(jobbed, [pod("a", "Succeeded"), pod("b")], CLOCK)
    assert second.status == first.status
    assert uids(second.release) == ["a"]
    # Without its finalizer it moves into the counter.
    third = plan_job(jobbed, [pod("a", "Succeeded", tracked=False), pod("b")], CLOCK)
    assert third.status["succeeded"] == 1
    assert third.status["uncountedTerminatedPods"] == {}
    # And so it does if somebody has deleted it meanwhile.
    assert plan_job(jobbed, [pod("b")], CLOCK).status["succeeded"] == 1


def test_a_job_is_complete_when_all_is_counted_and_no_pod_is_left():
    jobbed = job({"startTime": START, "succeeded": 1}, completions=2, parallelism=2)
    first = plan_job(jobbed, [pod("b", "Succeeded")], CLOCK)
    assert kinds(first.status) == {"SuccessCriteriaMet": "True"}
    jobbed["status"] = first.status
    second = plan_job(jobbed, [pod("b", "Succeeded", tracked=False)], CLOCK)
    assert kinds(second.status) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert second.status["succeeded"] == 2
    assert second.status["completionTime"] == stamp(NOON)
    assert is_finished({"status": second.status})
    entry = second.status["conditions"][-1]
    assert (entry["reason"], entry["message"]) == (
        "CompletionsReached",
        "Reached expected number of succeeded pods",
    )


def test_a_work_queue_starts_nothing_new_after_the_first_success():
    jobbed = job({"startTime": START}, parallelism=3)
    assert plan_job(jobbed, [], CLOCK).create == [None] * 3
    result = plan_job(jobbed, [pod("a", "Succeeded"), pod("b")], CLOCK)
    assert result.create == []
    assert result.discard == []
    assert kinds(plan_job(jobbed, [pod("a", "Succeeded")], CLOCK).status) == {"SuccessCriteriaMet": "True"}


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (12, 600)],  # 10 * 2^(n-1), at most 600
)
def test_the_next_pod_waits_longer_after_each_failure(failures, seconds):
    lost = [pod(f"f{n}", "Failed", tracked=False, finished=stamp(NOON - n)) for n in range(failures)]
    jobbed = job({"startTime": START, "failed": failures}, completions=1, backoffLimit=100)
    result = plan_job(jobbed, lost, CLOCK)
    assert result.create == []
    assert result.again == seconds
    assert plan_job(jobbed, lost, StillClock(at=NOON + seconds)).create == [None]
    assert plan_job(jobbed, lost, StillClock(64, at=NOON + seconds / 64)).create == [None]


def test_success_resets_job_backoff():
    seen = [pod("f", "Failed", tracked=False, finished=START), pod("s", "Succeeded", finished=stamp(NOON))]
    assert plan_job(job({"startTime": START, "failed": 1}, completions=2), seen, CLOCK).create == [None]


def test_backoff_limit_fails_job_and_deletes_active_pods():
    jobbed = job({"startTime": START, "failed": 1}, completions=3, parallelism=3, backoffLimit=1)
    first = plan_job(jobbed, [pod("f", "Failed"), pod("r"), pod("s", "Succeeded")], CLOCK)
    assert kinds(first.status) == {"FailureTarget": "True"}
    assert uids(first.delete) == ["r"]
    assert uids(first.release) == ["f", "r", "s"]
    # What was running when it failed counts as failed; what had succeeded stays a success.
    assert first.status["uncountedTerminatedPods"] == {"succeeded": ["s"], "failed": ["f", "r"]}
    jobbed["status"] = first.status
    # Not before the last pod is gone is the job.
    going = plan_job(jobbed, [pod("r", tracked=False, deleted=True)], CLOCK)
    assert "Failed" not in kinds(going.status)
    assert (going.status["failed"], going.status["succeeded"], going.status["terminating"]) == (3, 1, 1)
    jobbed["status"] = going.status
    last = plan_job(jobbed, [], CLOCK)
    assert kinds(last.status) == {"FailureTarget": "True", "Failed": "True"}
    assert last.status["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    assert "completionTime" not in last.status


@pytest.mark.parametrize(("limit", "restarts", "over"), [(2, 1, False), (2, 2, True), (0, 0, False), (0, 1, True)])
def test_container_restarts_count_towards_backoff_limit(limit, restarts, over):
    jobbed = job({"startTime": START}, restart="OnFailure", completions=1, backoffLimit=limit)
    result = plan_job(jobbed, [pod("a", restarts=restarts)], CLOCK)
    assert ("FailureTarget" in kinds(result.status)) is over


def test_the_deadline_of_a_job():
    jobbed = job({"startTime": START}, completions=1, activeDeadlineSeconds=90)  # it has run for 60 of 90
    assert plan_job(jobbed, [pod("a")], CLOCK).again == 30
    result = plan_job(jobbed, [pod("a")], StillClock(at=parse_time(START) + 90))
    assert result.status["conditions"][0]["reason"] == "DeadlineExceeded"
    assert uids(result.delete) == ["a"]


def test_suspended_job_deletes_pods_without_counting_them():
    jobbed = job({"startTime": START}, completions=2, parallelism=2, suspend=True)
    result = plan_job(jobbed, [pod("a"), pod("b")], CLOCK)
    assert sorted(uids(result.discard)) == ["a", "b"]
    assert result.release == []
    assert kinds(result.status) == {"Suspended": "True"}
    assert "startTime" not in result.status
    assert (result.status.get("active"), result.status["terminating"]) == (None, 2)
    jobbed["status"], jobbed["spec"]["suspend"] = result.status, False
    resumed = plan_job(jobbed, [], CLOCK)
    assert kinds(resumed.status) == {"Suspended": "False"}
    assert resumed.status["startTime"] == stamp(NOON)
    assert resumed.create == [None, None]


def test_a_job_created_suspended_has_no_start():
    result = plan_job(job(completions=1, suspend=True), [], CLOCK)
    assert "startTime" not in result.status
    assert result.create == []


def test_job_deletes_least_advanced_surplus_pods_first():
    pending = pod("p", "Pending") | {"spec": {}}
    result = plan_job(
        job({"startTime": START}, completions=9, parallelism=1), [pod("r", ready=True), pending, pod("u")], CLOCK
    )
    assert uids(result.discard) == ["p", "u"]
    assert result.create == []


def test_a_pod_that_is_being_deleted_is_replaced_at_once_or_when_it_is_gone():
    jobbed = job({"startTime": START}, completions=1)
    gone = pod("a", deleted=True)
    assert plan_job(jobbed, [gone], StillClock(at=NOON + 60)).create == [None]
    jobbed["spec"]["podReplacementPolicy"] = "Failed"
    waiting = plan_job(jobbed, [gone], StillClock(at=NOON + 60))
    assert waiting.create == []
    assert waiting.release == []
    assert waiting.status["terminating"] == 1


def test_an_indexed_job_completes_each_index_once():
    jobbed = job({"startTime": START}, completionMode="Indexed", completions=4, parallelism=3)
    assert plan_job(jobbed, [], CLOCK).create == [0, 1, 2]
    seen = [pod("a", "Succeeded", index=0), pod("b", index=1), pod("c", "Succeeded", index=2)]
    result = plan_job(jobbed, seen, CLOCK)
    assert result.status["completedIndexes"] == "0,2"
    assert result.status["succeeded"] == 2
    assert result.create == [3]
    assert uids(result.release) == ["a", "c"]


def test_duplicate_pod_of_an_index_is_deleted():
    jobbed = job({"startTime": START}, completionMode="Indexed", completions=3, parallelism=3)
    seen = [pod("a", index=0, ready=True), pod("b", index=0), pod("c", index=7), pod("d", index=1)]
    assert sorted(uids(plan_job(jobbed, seen, CLOCK).discard)) == ["b", "c"]


def test_indexed_pod_has_its_completion_index():
    made = new_pod(job(completionMode="Indexed", completions=2), 1)
    assert made["metadata"]["generateName"] == "j-1-"
    assert made["metadata"]["annotations"] == {"kubesim.dev/run-seconds": "5", INDEX: "1"}
    assert made["metadata"]["labels"] == {"job-name": "j", INDEX: "1"}
    assert made["metadata"]["finalizers"] == [TRACKING]
    assert made["spec"]["hostname"] == "j-1"
    assert made["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_ttl_expires_finished_job():
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": stamp(NOON)}]}
    jobbed = job(done, ttlSecondsAfterFinished=100)
    assert plan_job(jobbed, [], StillClock(at=NOON + 40)).again == 60
    assert plan_job(jobbed, [], StillClock(at=NOON + 100)).expired
    assert plan_job(jobbed, [], StillClock(50, at=NOON + 2)).expired
    assert plan_job(job(done), [], StillClock(at=NOON + 1e6)).again is None


class World:
    """A Job, its pods, and the writes that a plan asks for, any of which may be lost in a crash."""

    def __init__(self, jobbed):
        self.job = jobbed
        self.pods: dict[str, dict] = {}
        self.clock = StillClock()
        self.ended: dict[str, str] = {}
        self.number = 0

    def look(self, crash=99):
        """Carry out a plan; after so many of its writes everything stops."""
        result = plan_job(copy.deepcopy(self.job), [copy.deepcopy(p) for p in self.pods.values()], self.clock)
        writes = [lambda: self.job.update(status=result.status)]
        writes += [lambda p=p: self.release(p) for p in (*result.release, *result.discard)]
        writes += [lambda p=p: self.delete(p["metadata"]["uid"]) for p in (*result.delete, *result.discard)]
        writes += [lambda i=i: self.create(i) for i in result.create]
        for write in writes[:crash]:
            write()

    def create(self, index):
        uid = f"u{self.number}"
        self.number += 1
        self.pods[uid] = pod(uid, index=index)
        self.pods[uid]["metadata"]["creationTimestamp"] = stamp(self.clock.time)

    def release(self, found):
        uid = found["metadata"]["uid"]
        if uid in self.pods:
            self.pods[uid]["metadata"]["finalizers"] = []
            self.collect(uid)

    def delete(self, uid):
        found = self.pods.get(uid)
        if found and "deletionTimestamp" not in found["metadata"]:
            found["metadata"] |= {"deletionTimestamp": stamp(self.clock.time), "deletionGracePeriodSeconds": 0}
            if found["status"]["phase"] == "Running":
                self.end(uid, "Failed")
            self.collect(uid)

    def end(self, uid, phase):
        index = self.pods[uid]["metadata"].get("annotations", {}).get(INDEX)
        ended = pod(uid, phase, index=index, finished=stamp(self.clock.time))
        self.pods[uid]["status"] = ended["status"]
        self.ended[uid] = phase

    def collect(self, uid):
        about = self.pods[uid]["metadata"]
        if "deletionTimestamp" in about and not about["finalizers"]:
            del self.pods[uid]


steps = st.lists(
    st.tuples(st.sampled_from(["look", "crash", "succeed", "fail", "delete", "wait"]), st.integers(0, 6)), max_size=60
)


@given(st.integers(1, 4), st.integers(1, 5), st.booleans(), st.integers(0, 3), steps)
def test_every_pod_is_counted_once(parallelism, completions, indexed, limit, history):
    mode = "Indexed" if indexed else "NonIndexed"
    world = World(job(parallelism=parallelism, completions=completions, completionMode=mode, backoffLimit=limit))
    for what, number in history:
        running = [uid for uid, found in world.pods.items() if found["status"]["phase"] == "Running"]
        match what:
            case "look":
                world.look()
            case "crash":
                world.look(crash=number)
            case "succeed" | "fail" if running:
                world.end(running[number % len(running)], "Succeeded" if what == "succeed" else "Failed")
            case "delete" if world.pods:
                world.delete(list(world.pods)[number % len(world.pods)])
            case "wait":
                world.clock.time += 1000
        active = [p for p in world.pods.values() if p["status"]["phase"] == "Running"]
        assert len(active) <= parallelism
    # Left alone, with pods that succeed, every job comes to its end.
    for _ in range(60):
        world.clock.time += 1000
        world.look()
        for uid, found in list(world.pods.items()):
            if found["status"]["phase"] == "Running":
                world.end(uid, "Succeeded")
    assert is_finished(world.job)
    status = world.job["status"]
    assert not status["uncountedTerminatedPods"]
    won = sum(phase == "Succeeded" for phase in world.ended.values())
    complete = kinds(status).get("Complete") == "True"
    assert complete == (status.get("succeeded", 0) >= completions)
    assert status.get("succeeded", 0) <= won
    if not complete:
        assert status["failed"] > limit
    if not indexed:
        assert status.get("succeeded", 0) == won
        assert status.get("failed", 0) <= len(world.ended) - won
