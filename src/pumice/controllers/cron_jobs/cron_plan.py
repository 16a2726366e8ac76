"""Compute what is to be done for a CronJob. Pure: the same observation at the same time gives the same plan.

A job is due at the last time of the schedule since the last job was, or since the CronJob was created: after a pause of
the controller one job is made, not one for each time that was missed. Jobs are named after the minute in which they are
due, so that none is made twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from kubebase.cron_schedule import Schedule, ScheduleError, due_count, parse_schedule, time_zone
from kubebase.timestamps import stamp
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.jobs.pod_index import moment
from pumice.controllers.owned_jobs import controller_reference
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.event_recorder import EventType
from pumice.kube.resources import CRON_JOBS, JOBS, Document

SCHEDULED: Final = "volcano.sh/cronjob-scheduled-timestamp"
MANY_MISSED: Final = 100
"""More missed times than this are reported: the clock may be wrong."""
COMPLETED_LIMIT, FAILED_LIMIT = 3, 1
"""How many ended jobs are kept where the CronJob does not say."""

Said = tuple[str, str, EventType]
"""Reason, message and type of an Event."""


@dataclass(frozen=True, slots=True)
class CronPlan:
    """What is to be done for a CronJob."""

    delete: Sequence[Document] = ()
    create: Document | None = None
    due: float | None = None
    """When the job to create was due."""
    active: Sequence[Document] = ()
    """The jobs that have not ended and stay."""
    last_success: str = ""
    says: Sequence[Said] = ()
    again: float | None = None
    """When the next job is due."""


def plan_cron_job(cron: Document, jobs: Sequence[Document], now: float) -> CronPlan:
    """Compute what is to be done. ``jobs`` are those of this very CronJob."""
    if "deletionTimestamp" in cron["metadata"]:
        return CronPlan()
    spec = cron.get("spec") or {}
    ordered = sorted(jobs, key=lambda job: (moment(job["metadata"].get("creationTimestamp")), job["metadata"]["name"]))
    active = [job for job in ordered if not _has_ended(job)]
    plan = CronPlan(delete=_old_jobs(spec, ordered), active=active, last_success=_last_success(cron, ordered))
    if spec.get("suspend"):
        return plan
    try:
        schedule = parse_schedule(str(spec.get("schedule") or ""), str(spec.get("timeZone") or ""))
    except ScheduleError as error:
        words = f"Invalid schedule or time zone: {error}"
        return replace(plan, says=[("InvalidSchedule", words, "Warning")])
    plan = replace(plan, again=schedule.next_after(now))
    return _with_due_job(plan, cron, schedule, now)


def _with_due_job(plan: CronPlan, cron: Document, schedule: Schedule, now: float) -> CronPlan:
    spec, status = cron.get("spec") or {}, cron.get("status") or {}
    since = moment(status.get("lastScheduleTime")) or moment(cron["metadata"].get("creationTimestamp"))
    due = schedule.last_within(since, now)
    if due is None:
        return plan
    says: list[Said] = []
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and due < now - deadline:
        words = f"Missed the start of a job at {stamp(due)}: startingDeadlineSeconds is {deadline}"
        return replace(plan, says=[("MissSchedule", words, "Warning")])
    earliest = since if deadline is None else max(since, now - deadline)
    if due_count(schedule, earliest, now, MANY_MISSED + 1) > MANY_MISSED:
        words = f"More than {MANY_MISSED} start times were missed; set startingDeadlineSeconds, or check the clock"
        says.append(("TooManyMissedTimes", words, "Warning"))
    policy = spec.get("concurrencyPolicy") or "Allow"
    if plan.active and policy == "Forbid":
        names = ", ".join(job["metadata"]["name"] for job in plan.active)
        words = f"Not starting a job at {stamp(due)}: {names} still runs and concurrencyPolicy is Forbid"
        return replace(plan, says=[*says, ("ForbidConcurrent", words, "Normal")])
    delete, active = plan.delete, plan.active
    if policy == "Replace":
        delete, active = [*delete, *active], []
    return replace(plan, says=says, delete=delete, active=active, create=job_of(cron, due), due=due)


def job_of(cron: Document, due: float) -> Document:
    """The job that is due at a time. It belongs to the user of the CronJob, whom admission has verified."""
    about, spec = cron["metadata"], cron.get("spec") or {}
    template = spec.get("jobTemplate") or {}
    metadata = template.get("metadata") or {}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != USER}
    user = (about.get("annotations") or {}).get(USER)
    zone = time_zone(spec["timeZone"]) if spec.get("timeZone") else UTC
    annotations[SCHEDULED] = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": f"{about['name']}-{int(due) // 60}",
            "namespace": about["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**annotations, **({USER: user} if user else {})},
            "ownerReferences": [controller_reference(about, CRON_JOBS)],
        },
        "spec": template.get("spec") or {},
    }


def written_status(cron: Document, plan: CronPlan, created: Document | None) -> Document:
    """The status after a plan was executed; ``created`` is the job that was made, or existed already."""
    before = cron.get("status") or {}
    active = [*plan.active, *([created] if created is not None and not _has_ended(created) else [])]
    references = list({job["metadata"]["uid"]: _reference(job) for job in active}.values())
    status = {
        "active": references,
        "lastScheduleTime": before.get("lastScheduleTime") if plan.due is None else stamp(plan.due),
        "lastSuccessfulTime": plan.last_success,
    }
    return {name: value for name, value in status.items() if value}


def _reference(job: Document) -> Document:
    about = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": about["name"],
        "namespace": about["namespace"],
        "uid": about["uid"],
    }


def _phase(job: Document) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def _has_ended(job: Document) -> bool:
    return _phase(job) in (Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED)


def _last_success(cron: Document, jobs: Sequence[Document]) -> str:
    before = str((cron.get("status") or {}).get("lastSuccessfulTime") or "")
    ends = [job["status"]["state"].get("lastTransitionTime") or "" for job in jobs if _phase(job) == Phase.COMPLETED]
    return max([before, *ends])  # of one format, so that text is ordered like time


def _old_jobs(spec: Document, jobs: Sequence[Document]) -> list[Document]:
    """The ended jobs that are too many, the oldest first."""
    complete = [job for job in jobs if _phase(job) == Phase.COMPLETED]
    failed = [job for job in jobs if _phase(job) in (Phase.FAILED, Phase.TERMINATED)]
    found: list[Document] = []
    for ended, field, default in (
        (complete, "successfulJobsHistoryLimit", COMPLETED_LIMIT),
        (failed, "failedJobsHistoryLimit", FAILED_LIMIT),
    ):
        limit = spec.get(field)
        found += ended[: max(0, len(ended) - (default if limit is None else limit))]
    return [job for job in found if "deletionTimestamp" not in job["metadata"]]
