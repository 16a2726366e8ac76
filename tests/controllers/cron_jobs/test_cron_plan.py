"""What a CronJob does at a time: cases by hand, and random stories from start to end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.timestamps import stamp
from pumice.controllers.cron_jobs.cron_plan import CronPlan, plan_cron_job, written_status
from tests.support.examples import fewer_examples

Document = dict[str, Any]


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-01-01T{text}").replace(tzinfo=UTC).timestamp()


def cron_job(schedule: str = "*/10 * * * *", last: str = "", **spec: Any) -> Document:
    about = {"name": "c", "namespace": "ns", "uid": "u-c", "creationTimestamp": stamp(at("12:00:30"))}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"queue": "q"}}
    status = {"status": {"lastScheduleTime": stamp(at(last))}} if last else {}
    return {"metadata": about, "spec": {"schedule": schedule, "jobTemplate": template, **spec}, **status}


def job(name: str, phase: str = "", created: str = "12:10:00", ended: str = "12:11:00") -> Document:
    about = {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": stamp(at(created))}
    state = {"phase": phase, "lastTransitionTime": stamp(at(ended))}
    return {"metadata": about, "status": {"state": state} if phase else {}}


def names(jobs: Any) -> list[str]:
    return [each["metadata"]["name"] for each in jobs]


@pytest.mark.parametrize(
    ("cron", "now", "due", "following"),
    [
        (cron_job(), "12:09:59", "", "12:10:00"),
        (cron_job(), "12:10:00", "12:10:00", "12:20:00"),
        (cron_job(), "12:45:00", "12:40:00", "12:50:00"),  # of four missed times only the last
        (cron_job(last="12:40:00"), "12:45:00", "", "12:50:00"),
        (cron_job(suspend=True), "12:45:00", "", ""),
        (cron_job(startingDeadlineSeconds=299), "12:45:00", "", "12:50:00"),
        (cron_job(startingDeadlineSeconds=300), "12:45:00", "12:40:00", "12:50:00"),
        (cron_job("0 13 * * *", timeZone="Europe/Berlin"), "12:30:00", "", ""),  # 12:00 UTC, before it was created
        (cron_job("@every 20m"), "12:59:00", "12:40:30", "13:19:00"),
    ],
)
def test_job_is_due_at_the_last_time_of_the_schedule(cron: Document, now: str, due: str, following: str) -> None:
    plan = plan_cron_job(cron, [], at(now))
    assert plan.due == (at(due) if due else None)
    assert (plan.create is not None) is bool(due)
    if following:
        assert plan.again == at(following)


def test_job_is_named_after_the_minute_and_says_when_it_was_due() -> None:
    cron = cron_job("30 13 * * *", timeZone="Europe/Berlin")
    cron["metadata"]["annotations"] = {"volcano.sh/user": "ann"}
    cron["spec"]["jobTemplate"]["metadata"]["annotations"] = {"x": "y", "volcano.sh/user": "bert"}
    made = plan_cron_job(cron, [], at("12:45:00")).create
    assert made is not None
    assert made["metadata"]["name"] == f"c-{int(at('12:30:00')) // 60}"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {
        "x": "y",
        "volcano.sh/user": "ann",
        "volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T13:30:00+01:00",
    }
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("CronJob", "u-c", True)
    assert made["spec"] == {"queue": "q"}


@pytest.mark.parametrize(
    ("policy", "made", "deleted", "reasons"),
    [("Allow", True, [], []), ("Forbid", False, [], ["ForbidConcurrent"]), ("Replace", True, ["old"], [])],
)
def test_concurrency_policy(policy: str, made: bool, deleted: list[str], reasons: list[str]) -> None:
    plan = plan_cron_job(cron_job(last="12:10:00", concurrencyPolicy=policy), [job("old", "Running")], at("12:20:00"))
    assert (plan.create is not None, names(plan.delete)) == (made, deleted)
    assert [reason for reason, _, _ in plan.says] == reasons


def test_ended_job_does_not_forbid_another() -> None:
    done = [job("a", "Completed"), job("b", "Failed"), job("c", "Terminated")]
    assert plan_cron_job(cron_job(concurrencyPolicy="Forbid"), done, at("12:20:00")).create is not None


def test_history_keeps_the_newest_jobs() -> None:
    jobs = [job(f"done-{i}", "Completed", f"12:1{i}:00") for i in range(5)]
    jobs += [job("bad-0", "Failed", "12:30:00"), job("bad-1", "Terminated", "12:31:00"), job("runs", "Running")]
    late = at("12:09:00")
    assert names(plan_cron_job(cron_job(), jobs, late).delete) == ["done-0", "done-1", "bad-0"]
    limits = {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2}
    assert len(plan_cron_job(cron_job(**limits), jobs, late).delete) == 5


def test_many_missed_times_are_reported() -> None:
    few = plan_cron_job(cron_job("* * * * *"), [], at("13:40:30"))
    many = plan_cron_job(cron_job("* * * * *"), [], at("13:41:30"))
    limited = plan_cron_job(cron_job("* * * * *", startingDeadlineSeconds=60), [], at("13:41:30"))
    assert [list(plan.says) for plan in (few, limited)] == [[], []]
    assert [reason for reason, _, _ in many.says] == ["TooManyMissedTimes"]
    assert many.create is not None


def test_missed_deadline_is_reported() -> None:
    ((reason, words, kind),) = plan_cron_job(cron_job(startingDeadlineSeconds=5), [], at("12:15:00")).says
    assert (reason, kind) == ("MissSchedule", "Warning")
    assert words == "Missed the start of a job at 2026-01-01T12:10:00Z: startingDeadlineSeconds is 5"


def test_schedule_that_cannot_be_read_is_reported() -> None:
    plan = plan_cron_job(cron_job("often"), [job("old", "Running")], at("13:00:00"))
    assert [reason for reason, _, _ in plan.says] == ["InvalidSchedule"]
    assert (plan.create, plan.again, names(plan.active)) == (None, None, ["old"])


def test_cron_job_in_deletion_does_nothing() -> None:
    cron = cron_job()
    cron["metadata"]["deletionTimestamp"] = stamp(at("12:30:00"))
    assert plan_cron_job(cron, [], at("13:00:00")) == CronPlan()


def test_status() -> None:
    cron = cron_job(last="12:10:00")
    jobs = [job("one", "Completed", ended="12:12:00"), job("two", "Completed", ended="12:11:00"), job("three")]
    plan = plan_cron_job(cron, jobs, at("12:20:00"))
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "ns"}
    assert written_status(cron, plan, job("new")) == {
        "active": [{**reference, "name": "three", "uid": "u-three"}, {**reference, "name": "new", "uid": "u-new"}],
        "lastScheduleTime": stamp(at("12:20:00")),
        "lastSuccessfulTime": stamp(at("12:12:00")),
    }
    quiet = plan_cron_job(cron, [], at("12:15:00"))
    assert written_status(cron, quiet, None) == {"lastScheduleTime": stamp(at("12:10:00"))}


@fewer_examples(3)
@given(
    st.sampled_from(["*/10 * * * *", "7,8 * * * *", "@every 7m", "* * * * *"]),
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.lists(st.integers(1, 900), min_size=1, max_size=25),
    st.randoms(use_true_random=False),
)
def test_every_time_has_at_most_one_job_and_policies_hold(
    schedule: str, policy: str, pauses: list[int], chance: Any
) -> None:
    cron = cron_job(schedule, concurrencyPolicy=policy, successfulJobsHistoryLimit=2)
    now, jobs, made = at("12:00:30"), {}, []
    for pause in pauses:
        now += pause
        plan = plan_cron_job(cron, list(jobs.values()), now)
        for each in plan.delete:
            del jobs[each["metadata"]["name"]]
        created = None
        if plan.create is not None:
            assert plan.due is not None and plan.due <= now
            name = plan.create["metadata"]["name"]
            made.append(plan.due)
            if name not in jobs:
                about = {**plan.create["metadata"], "uid": f"u-{len(made)}", "creationTimestamp": stamp(now)}
                jobs[name] = {**plan.create, "metadata": about, "status": {}}
            created = jobs[name]
        cron["status"] = written_status(cron, plan, created)
        again = plan_cron_job(cron, list(jobs.values()), now)
        assert again.create is None and not again.delete  # nothing is left to do
        running = [each for each in jobs.values() if not each["status"]]
        assert policy == "Allow" or len(running) <= 1
        assert {ref["name"] for ref in cron["status"].get("active", [])} == set(names(running))
        if running and chance.random() < 0.6:
            state = {"phase": "Completed", "lastTransitionTime": stamp(now)}
            chance.choice(running)["status"] = {"state": state}
    assert made == sorted(set(made))
