"""Compute the next writes for a JobFlow from the observed state. Pure: the same observation gives the same writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubebase.timestamps import stamp
from pumice.admission.jobs.job_flows import flows_of, targets_of
from pumice.controllers.flows.job_patch import patched_spec
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.owned_jobs import controller_reference
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.resources import JOB_FLOWS, JOBS, Document

CREATED_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_FLOW: Final = "volcano.sh/createdByJobFlow"
LONGEST_LABEL: Final = 63
PENDING, RUNNING, SUCCEED, FAILED = "Pending", "Running", "Succeed", "Failed"
DELETE: Final = "delete"
LISTS: Final[dict[str, str]] = {
    Phase.PENDING: "pendingJobs",
    Phase.RUNNING: "runningJobs",
    Phase.COMPLETED: "completedJobs",
    Phase.FAILED: "failedJobs",
    Phase.TERMINATED: "terminatedJobs",
}
"""The field of the status that lists jobs of a phase; the rest are in ``unKnowJobs``."""
UNKNOWN: Final = "unKnowJobs"
ENDED: Final = (Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED)
LONGEST_HISTORY: Final = 20
BEYOND: Final = {"Pending": ("Pending", "Running", "Succeeded"), "Running": ("Running", "Succeeded")}
"""Phases of pods that have reached a phase."""


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What is to be done for a flow."""

    create: Sequence[Document] = ()
    delete: Sequence[Document] = ()
    status: Document | None = None
    """The new status; None if it is equal."""
    missing: Sequence[str] = ()
    """Names of the JobTemplates that the next jobs need and that do not exist."""
    problem: str = ""
    """Why the flow failed, if it just did."""


def job_name(flow: Document, entry: str) -> str:
    """The name of the job that is made for an entry."""
    return f"{flow['metadata']['name']}-{entry}"


def plan_flow(flow: Document, templates: Mapping[str, Document], jobs: Mapping[str, Document], now: float) -> FlowPlan:
    """Compute the next writes. ``templates`` by name; ``jobs`` are those of this very flow, by name."""
    before = flow.get("status") or {}
    phase = (before.get("state") or {}).get("phase") or ""
    if "deletionTimestamp" in flow["metadata"]:
        return FlowPlan()
    if phase == SUCCEED:
        delete = jobs.values() if spec_of_flow(flow).get("jobRetainPolicy") == DELETE else ()
        return FlowPlan(delete=[job for job in delete if "deletionTimestamp" not in job["metadata"]])
    records = _records(before, jobs, now)
    phases = {record["name"]: record.get("state", "") for record in records}
    if phase != FAILED:
        phase = _phase(flow, phases)
    status = _written(before, records, jobs, phase)
    create, missing = _next_jobs(flow, templates, jobs, phases) if phase in (PENDING, RUNNING) else ([], [])
    problem = ""
    if phase == FAILED and (before.get("state") or {}).get("phase") != FAILED:
        ended = [name for name, state in phases.items() if state in (Phase.FAILED, Phase.TERMINATED)]
        problem = f"jobs ended without success: {', '.join(sorted(ended))}"
    return FlowPlan(create, (), status if status != before else None, missing, problem)


def spec_of_flow(flow: Document) -> Document:
    """The spec of a flow."""
    return flow.get("spec") or {}


def _phase(flow: Document, phases: Mapping[str, str]) -> str:
    """The phase of a flow that has not ended. One that lost a job cannot succeed: what depends on it never starts."""
    states = [phases.get(job_name(flow, entry["name"]), "") for entry in flows_of(flow)]
    if any(state in (Phase.FAILED, Phase.TERMINATED) for state in states):
        return FAILED
    if states and all(state == Phase.COMPLETED for state in states):
        return SUCCEED
    started = any(state not in ("", Phase.PENDING) for state in states)
    return RUNNING if started else PENDING


def _next_jobs(
    flow: Document, templates: Mapping[str, Document], jobs: Mapping[str, Document], phases: Mapping[str, str]
) -> tuple[list[Document], list[str]]:
    """The jobs that may start now, and the templates that are missing for some of them."""
    create, missing = [], []
    for entry in flows_of(flow):
        name = job_name(flow, entry["name"])
        if name in jobs or phases.get(name) == Phase.COMPLETED or not _may_start(flow, entry, jobs, phases):
            continue
        template = templates.get(entry["name"])
        if template is None:
            missing.append(entry["name"])
        else:
            create.append(job_of(flow, entry, template))
    return create, missing


def _may_start(flow: Document, entry: Document, jobs: Mapping[str, Document], phases: Mapping[str, str]) -> bool:
    """Whether everything that an entry depends on is far enough."""
    probes = ((entry.get("dependsOn") or {}).get("probe") or {}).get("taskStatusList") or ()
    names = (job_name(flow, target) for target in targets_of(entry))
    return all(phases.get(name) == Phase.COMPLETED or _has_reached(jobs.get(name), probes) for name in names)


def _has_reached(job: Document | None, probes: Sequence[Document]) -> bool:
    """Whether all pods of the tasks that probes name have reached the phase that they name."""
    if job is None or not probes:
        return False
    counts = (job.get("status") or {}).get("taskStatusCount") or {}
    wanted = {task.get("name"): task.get("replicas") or 0 for task in (job.get("spec") or {}).get("tasks") or ()}
    for probe in probes:
        task, phase = probe.get("taskName"), str(probe.get("phase") or "")
        pods = (counts.get(task) or {}).get("phase") or {}
        reached = sum(pods.get(each) or 0 for each in BEYOND.get(phase, (phase,)))
        if task not in wanted or reached < max(1, wanted[task]):
            return False
    return True


def job_of(flow: Document, entry: Document, template: Document) -> Document:
    """The job of an entry. It belongs to the user of the flow, not to that of the template."""
    about = flow["metadata"]
    origin = {
        CREATED_BY_TEMPLATE: f"{about['namespace']}.{entry['name']}",
        CREATED_BY_FLOW: f"{about['namespace']}.{about['name']}",
    }
    user = (about.get("annotations") or {}).get(USER)
    patch = (entry.get("patch") or {}).get("jobSpec") or {}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(flow, entry["name"]),
            "namespace": about["namespace"],
            "labels": {name: text for name, text in origin.items() if len(text) <= LONGEST_LABEL},
            "annotations": {**origin, **({USER: user} if user else {})},
            "ownerReferences": [controller_reference(about, JOB_FLOWS)],
        },
        "spec": patched_spec(template.get("spec") or {}, patch),
    }


# ---- the status -----------------------------------------------------------------------------------------------


def _records(before: Document, jobs: Mapping[str, Document], now: float) -> list[Document]:
    """Every job that was made, in the order in which they were: as it is now, or as it was when last seen."""
    known = {record.get("name"): record for record in before.get("jobStatusList") or ()}
    order = [*known, *sorted(name for name in jobs if name not in known)]
    return [_record(known.get(name) or {}, jobs[name], now) if name in jobs else known[name] for name in order]


def _record(before: Document, job: Document, now: float) -> Document:
    status = job.get("status") or {}
    state = status.get("state") or {}
    phase = str(state.get("phase") or "")
    record = {
        "name": job["metadata"]["name"],
        "state": phase,
        "startTimestamp": job["metadata"].get("creationTimestamp"),
        "endTimestamp": state.get("lastTransitionTime") if phase in ENDED else None,
        "restartCount": status.get("retryCount") or 0,
        "runningHistories": _history(before.get("runningHistories") or [], phase, stamp(now)),
    }
    return {name: value for name, value in record.items() if value is not None}


def _history(before: list[Document], phase: str, now: str) -> list[Document]:
    """The phases of a job; the last one ends when another begins."""
    if not phase or (before and before[-1].get("state") == phase):
        return before
    past = [*before[:-1], {**before[-1], "endTimestamp": now}] if before else []
    return [*past, {"startTimestamp": now, "state": phase}][-LONGEST_HISTORY:]


def _written(before: Document, records: list[Document], jobs: Mapping[str, Document], phase: str) -> Document:
    status: Document = {**before, "state": {"phase": phase}}
    for field in (*LISTS.values(), UNKNOWN):
        status.pop(field, None)
    for record in records:
        field = LISTS.get(record.get("state") or "", UNKNOWN)
        status[field] = [*status.get(field, ()), record["name"]]
    if records:
        status["jobStatusList"] = records
        earlier = before.get("conditions") or {}
        names = [record["name"] for record in records]
        found = {name: _condition(jobs[name]) if name in jobs else earlier.get(name) or {} for name in names}
        status["conditions"] = found
    return status


def _condition(job: Document) -> Document:
    status = job.get("status") or {}
    found = {
        "phase": (status.get("state") or {}).get("phase"),
        "createTime": job["metadata"].get("creationTimestamp"),
        "runningDuration": status.get("runningDuration"),
        "taskStatusCount": status.get("taskStatusCount"),
    }
    return {name: value for name, value in found.items() if value}


def owned_jobs(flow: Document, jobs: Iterable[Document]) -> dict[str, Document]:
    """The jobs that this very flow has made, by name."""
    uid = flow["metadata"]["uid"]
    return {
        job["metadata"]["name"]: job
        for job in jobs
        if any(owner.get("uid") == uid for owner in job["metadata"].get("ownerReferences") or ())
    }
