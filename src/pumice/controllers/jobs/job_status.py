"""The status of a job: its recorded state, and its pod counts.

Besides the documented phase and counts, a status stores persistent controller state in ``controlledResources``, which
accepts arbitrary names and texts:

``restart.TASK``, ``restart.TASK.pN``, ``restart.TASK.N``
    how often a task, a partition of it, or a pod was restarted at this version
``generation``
    the generation of the job at which its spec was last read, if a policy refers to updates of the job
``after``
    ``met``: the jobs that it starts after have ended as it wants; they may have been deleted since
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubebase.timestamps import stamp
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.jobs.pod_index import (
    FAILED,
    FINISHED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    PodIndex,
    PodRecord,
    moment,
)
from pumice.controllers.jobs.spec import Job
from pumice.kube.decode.container_states import blocked_containers, blocked_summary
from pumice.kube.resources import Document

CONTAINERS_BLOCKED: Final = "ContainersBlocked"
"""The reason in the state of a job whose pods have nodes and cannot start their containers."""
PVC_ERROR: Final = "PVCError"
"""The reason in the state of a job whose claims could not be created, and in the Event about it."""
RESTART: Final = "restart."
GENERATION: Final = "generation"
AFTER_KEY, AFTER_MET = "after", "met"
WAITS_FOR_JOBS: Final = "WaitsForJobs"
"""The reason in the state of a job that starts after others."""

MOST_CONDITIONS = 20
"""How many past phases a job's status lists."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The recorded state of a job."""

    phase: Phase | None = None
    """None: not reconciled yet."""
    reason: str = ""
    message: str = ""
    since: float = 0.0
    """When it entered its phase."""
    version: int = 0
    retries: int = 0
    restarts: Mapping[str, int] = field(default_factory=dict)
    generation: int = 0
    may_start: bool = False
    """Whether the jobs that it starts after have ended as it wants."""
    shown: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Pods per task and phase when the status was written."""


def read_standing(document: Document) -> JobStatus:
    """Read the state of a job from its status."""
    status = document.get("status") or {}
    state, kept = status.get("state") or {}, status.get("controlledResources") or {}
    phase = state.get("phase")
    if state.get("reason") in (CONTAINERS_BLOCKED, PVC_ERROR):  # no part of the state: it follows from other objects
        state = {name: value for name, value in state.items() if name not in ("reason", "message")}
    return JobStatus(
        phase=Phase(phase) if phase else None,
        reason=state.get("reason") or "",
        message=state.get("message") or "",
        since=moment(state.get("lastTransitionTime")),
        version=status.get("version") or 0,
        retries=status.get("retryCount") or 0,
        restarts={
            name.removeprefix(RESTART): int(times)
            for name, times in kept.items()
            if name.startswith(RESTART) and times.isdecimal()
        },
        generation=int(kept.get(GENERATION) or 0),
        may_start=kept.get(AFTER_KEY) == AFTER_MET,
        shown={task: entry.get("phase") or {} for task, entry in (status.get("taskStatusCount") or {}).items()},
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Pod counts of a job."""

    tasks: Mapping[str, Mapping[str, int]]
    """Current pods that are not terminating, per task and phase."""
    phases: Mapping[str, int]
    """The same over all tasks."""
    terminating: int
    """Pods that are terminating, or will be deleted."""

    @property
    def finished(self) -> int:
        """Pods that have finished."""
        return sum(self.phases.get(phase, 0) for phase in FINISHED)

    @property
    def active(self) -> int:
        """Pods that have not finished, or still exist."""
        return sum(self.phases.values()) - self.finished + self.terminating


def count(job: Job, members: PodIndex) -> Counts:
    """Count a job's pods."""
    tasks = {
        task.name: Counter(member.phase for member in members.of(task) if not member.leaving) for task in job.tasks
    }
    leaving = sum(member.leaving for member in members.current.values())
    return Counts(tasks, sum(tasks.values(), Counter()), leaving + len(members.old))


def blocked_message(members: PodIndex) -> str:
    """Which pods have a node and cannot start their containers, and why; empty: all can."""
    bound = [member.document for member in members.current.values() if _is_bound(member)]
    found = [each for pod in bound for each in blocked_containers(pod)]
    return f"{blocked_summary(found, len(bound))}: {found[0].stable_text()}" if found else ""


def _is_bound(member: PodRecord) -> bool:
    """Whether a pod has a node and has not ended."""
    return bool(member.document["spec"].get("nodeName")) and not (member.finished or member.leaving)


def written(
    job: Job,
    before: Document,
    now: JobStatus,
    counts: Counts,
    at: float,
    blocked: str = "",
    refused_claim: str = "",
) -> Document:
    """The status to write: the status ``before``, updated to the job's state ``at`` this time.

    ``blocked``: which containers cannot start. ``refused_claim``: why a claim of the job could not be created.
    """
    assert now.phase is not None
    moved = (before.get("state") or {}).get("phase") != now.phase
    since = stamp(at) if moved else before["state"].get("lastTransitionTime") or stamp(at)
    state = {"phase": now.phase.value, "lastTransitionTime": since}
    reason, message = now.reason, now.message
    if refused_claim and now.phase.is_active and not message:
        reason, message = PVC_ERROR, refused_claim
    elif blocked and now.phase.is_active and not message:
        reason, message = CONTAINERS_BLOCKED, blocked
    state |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    status: dict[str, Any] = {
        "state": state,
        "minAvailable": job.min_available,
        "pending": counts.phases.get(PENDING, 0),
        "running": counts.phases.get(RUNNING, 0),
        "succeeded": counts.phases.get(SUCCEEDED, 0),
        "failed": counts.phases.get(FAILED, 0),
        "unknown": counts.phases.get(UNKNOWN, 0),
        "terminating": counts.terminating,
        "version": now.version,
        "retryCount": now.retries,
        "conditions": _conditions(before, now.phase, since),
    }
    shown = {task: {"phase": dict(sorted(phases.items()))} for task, phases in counts.tasks.items() if phases}
    if shown:
        status["taskStatusCount"] = shown
    kept = {f"{RESTART}{scope}": str(times) for scope, times in now.restarts.items() if times}
    kept |= {GENERATION: str(now.generation)} if now.generation else {}
    kept |= {AFTER_KEY: AFTER_MET} if now.may_start else {}
    kept |= {f"plugin-{name}": name for name in job.plugins}
    if kept:
        status["controlledResources"] = kept
    ran = _running_duration(status["conditions"]) if now.phase.is_over else ""
    if ran:
        status["runningDuration"] = ran
    return status


def _conditions(before: Document, phase: Phase, since: str) -> list[Document]:
    conditions = list(before.get("conditions") or ())
    if not conditions or conditions[-1].get("status") != phase:
        conditions.append({"status": phase.value, "lastTransitionTime": since})
    return conditions[-MOST_CONDITIONS:]


def _running_duration(conditions: list[Document]) -> str:
    """How long the job last ran, until it entered another phase; empty if it never ran."""
    for entry, following in zip(reversed(conditions[:-1]), reversed(conditions), strict=False):
        if entry.get("status") == Phase.RUNNING:
            return duration(moment(following.get("lastTransitionTime")) - moment(entry.get("lastTransitionTime")))
    return ""


def duration(seconds: float) -> str:
    """A duration in Go's notation: 1h2m3s."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"
