"""The next step of a CronJob: whether a Job is due, which Jobs go, and its status. Pure.

Schedules are in real time, whatever the speed of the cluster: a schedule names times of the day. If several times have
passed since the last Job, one Job is made, for the last of them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final

from kubebase.cron_schedule import ScheduleError, parse_schedule
from kubesim.clock import parse_time, stamp
from kubesim.controllers.conditions import is_condition_true
from kubesim.controllers.controller_refs import is_being_deleted, new_controller_ref
from kubesim.registry.registry import Object

SCHEDULED_FOR: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@dataclass(slots=True)
class CronPlan:
    """What to do now."""

    due: float | None = None
    """The time for which a Job is made now."""
    delete: list[Object] = field(default_factory=list)
    """Jobs that go: finished ones beyond the history, and running ones that the new Job replaces."""
    status: Object = field(default_factory=dict)
    again: float | None = None
    """After how many real seconds the next Job is due."""
    missed: str = ""
    """Why the Job that is due is not made."""


def plan_cron_job(cron: Object, jobs: list[Object], now: float) -> CronPlan:
    """The next step at a moment."""
    spec, before = cron["spec"], cron.get("status") or {}
    plan = CronPlan(status={key: value for key, value in before.items() if key != "active"})
    active = [job for job in jobs if not finished_condition(job)]
    _trim_history(plan, spec, jobs)
    succeeded = [job["status"]["completionTime"] for job in jobs if (job.get("status") or {}).get("completionTime")]
    if succeeded:
        plan.status["lastSuccessfulTime"] = max([*succeeded, before.get("lastSuccessfulTime", "")])
    if not is_being_deleted(cron) and not spec.get("suspend"):
        _plan_next(plan, cron, active, now)
    kept = [job for job in active if job not in plan.delete]
    if kept:
        plan.status["active"] = [_reference(job) for job in kept]
    return plan


def finished_condition(job: Object) -> str:
    """The condition by which a Job has finished; empty if it has not."""
    status = job.get("status") or {}
    return next((kind for kind in ("Complete", "Failed") if is_condition_true(status, kind)), "")


def _plan_next(plan: CronPlan, cron: Object, active: list[Object], now: float) -> None:
    spec, about = cron["spec"], cron["metadata"]
    try:
        schedule = parse_schedule(spec["schedule"], spec.get("timeZone", ""))
    except ScheduleError as error:  # a zone that another machine had
        plan.missed = str(error)
        return
    since = parse_time((cron.get("status") or {}).get("lastScheduleTime") or about["creationTimestamp"])
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - deadline)
    due, following = schedule.last_within(since, now), schedule.next_after(now)
    plan.again = None if following is None else max(0.0, following - now)
    if due is None:
        return
    if spec["concurrencyPolicy"] == "Forbid" and active:
        plan.missed = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return
    if spec["concurrencyPolicy"] == "Replace":
        plan.delete += active
    plan.due = due
    plan.status["lastScheduleTime"] = stamp(due)


def _trim_history(plan: CronPlan, spec: Object, jobs: list[Object]) -> None:
    for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        done = [job for job in jobs if finished_condition(job) == kind and not is_being_deleted(job)]
        done.sort(key=lambda job: ((job.get("status") or {}).get("startTime", ""), job["metadata"]["name"]))
        plan.delete += done[: max(0, len(done) - spec[limit])]


def _reference(job: Object) -> Object:
    about = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "namespace": about["namespace"],
        "name": about["name"],
        "uid": about["uid"],
        "resourceVersion": about["resourceVersion"],
    }


def new_job(cron: Object, due: float) -> Object:
    """The Job for a time. Its name follows from the time, so that it is made once."""
    about, template = cron["metadata"], cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    annotations = {**(given.get("annotations") or {}), SCHEDULED_FOR: stamp(due)}
    return {
        "metadata": {
            "name": f"{about['name']}-{int(due) // 60}",
            "labels": dict(given.get("labels") or {}),
            "annotations": annotations,
            "ownerReferences": [new_controller_ref(cron)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
