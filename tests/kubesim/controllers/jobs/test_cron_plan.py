"""When a CronJob makes a Job, and which Jobs it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.clock import parse_time, stamp
from kubesim.controllers.jobs.cron_plan import new_job, plan_cron_job

NOON = parse_time("2026-03-01T12:00:00Z")


def cron(schedule: str = "*/10 * * * *", last: str = "", **spec: Any) -> dict[str, Any]:
    whole = {
        "schedule": schedule,
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {}}}},
        **spec,
    }
    about = {"name": "c", "namespace": "default", "uid": "u", "creationTimestamp": "2026-03-01T11:55:30Z"}
    status = {"lastScheduleTime": last} if last else {}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": about, "spec": whole, "status": status}


def job(number: int, end: str = "") -> dict[str, Any]:
    about = {"name": f"c-{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": "1"}
    status: dict[str, Any] = {"startTime": stamp(NOON - 3600 + number)}
    if end:
        status["conditions"] = [{"type": end, "status": "True"}]
    if end == "Complete":
        status["completionTime"] = stamp(NOON - 1800 + number)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "status": status}


def test_job_is_due_at_the_last_time_since_the_one_before() -> None:
    assert plan_cron_job(cron(), [], NOON - 1).due is None
    plan = plan_cron_job(cron(), [], NOON + 61)
    assert (plan.due, plan.status, plan.again) == (NOON, {"lastScheduleTime": "2026-03-01T12:00:00Z"}, 539.0)
    assert plan_cron_job(cron(last="2026-03-01T12:00:00Z"), [], NOON + 61).due is None
    assert plan_cron_job(cron(last="2026-03-01T10:00:00Z"), [], NOON + 61).due == NOON


def test_time_zone_moves_the_schedule() -> None:
    # Noon in Tokyo is 03:00 in Greenwich.
    daily = cron("0 12 * * *", last="2026-02-28T03:00:00Z", timeZone="Asia/Tokyo")
    assert plan_cron_job(daily, [], NOON).due == parse_time("2026-03-01T03:00:00Z")


def test_suspended_and_deleted_cron_jobs_make_nothing() -> None:
    leaving = cron()
    leaving["metadata"]["deletionTimestamp"] = stamp(NOON)
    for idle in (cron(suspend=True), leaving):
        plan = plan_cron_job(idle, [], NOON + 61)
        assert (plan.due, plan.again) == (None, None)


def test_starting_deadline_lets_late_jobs_go() -> None:
    assert plan_cron_job(cron(startingDeadlineSeconds=60), [], NOON + 59).due == NOON
    assert plan_cron_job(cron(startingDeadlineSeconds=60), [], NOON + 61).due is None


@pytest.mark.parametrize(
    ("policy", "due", "deleted"), [("Allow", NOON, []), ("Forbid", None, []), ("Replace", NOON, ["c-1"])]
)
def test_concurrency_policy(policy: str, due: float | None, deleted: list[str]) -> None:
    plan = plan_cron_job(cron(concurrencyPolicy=policy), [job(1)], NOON)
    assert plan.due == due
    assert [gone["metadata"]["name"] for gone in plan.delete] == deleted
    assert bool(plan.missed) is (policy == "Forbid")
    assert [kept["name"] for kept in plan.status.get("active", [])] == ([] if deleted else ["c-1"])


def test_history_keeps_the_newest_of_each_end() -> None:
    jobs = [job(number, "Complete") for number in range(5)] + [job(number, "Failed") for number in range(5, 7)]
    plan = plan_cron_job(cron(suspend=True), jobs, NOON)
    assert [gone["metadata"]["name"] for gone in plan.delete] == ["c-0", "c-1", "c-5"]
    assert plan.status == {"lastSuccessfulTime": stamp(NOON - 1800 + 4)}


def test_job_is_named_after_its_time() -> None:
    made = new_job(cron(), NOON)
    assert made["metadata"]["name"] == f"c-{int(NOON) // 60}"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T12:00:00Z"
    }
