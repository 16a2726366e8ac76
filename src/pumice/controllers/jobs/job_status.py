"""What a job's status says: where the job stands, and what its pods come to.

Beside the phase and the counts people know, a status keeps what its controller must not forget, in
``controlledResources``, where names and texts are free:

``restart.TASK``, ``restart.TASK.pN``, ``restart.TASK.N``
    how often a task, a partition of it, or a pod was restarted at this version
``generation``
    the generation of the job at which its spec was last looked at, where a policy is about changes of it
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
    moment,
)
from pumice.controllers.jobs.spec import Job
from pumice.kube.resources import Document

RESTART: Final = "restart."
GENERATION: Final = "generation"

MOST_CONDITIONS = 20
"""How many phases of its past a job shows."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands."""

    phase: Phase | None = None
    """None: nobody has looked at it yet."""
    reason: str = ""
    message: str = ""
    since: float = 0.0
    """When it got into its phase."""
    version: int = 0
    retries: int = 0
    restarts: Mapping[str, int] = field(default_factory=dict)
    generation: int = 0
    shown: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of each task, how many pods it had in which phase when the status was written."""


def read_standing(document: Document) -> JobStatus:
    """Where a job stands by its own status."""
    status = document.get("status") or {}
    state, kept = status.get("state") or {}, status.get("controlledResources") or {}
    phase = state.get("phase")
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
        shown={task: entry.get("phase") or {} for task, entry in (status.get("taskStatusCount") or {}).items()},
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """What the pods of a job come to."""

    tasks: Mapping[str, Mapping[str, int]]
    """Of each task, those that count and stay, by phase."""
    phases: Mapping[str, int]
    """The same of all tasks together."""
    terminating: int
    """Those that are on their way out, or will be."""

    @property
    def finished(self) -> int:
        """Those that have ended."""
        return sum(self.phases.get(phase, 0) for phase in FINISHED)

    @property
    def active(self) -> int:
        """Those that have not ended, or are not gone yet."""
        return sum(self.phases.values()) - self.finished + self.terminating


def count(job: Job, members: PodIndex) -> Counts:
    """Count a job's pods."""
    tasks = {
        task.name: Counter(member.phase for member in members.of(task) if not member.leaving) for task in job.tasks
    }
    leaving = sum(member.leaving for member in members.current.values())
    return Counts(tasks, sum(tasks.values(), Counter()), leaving + len(members.old))


def written(job: Job, before: Document, now: JobStatus, counts: Counts, at: float) -> Document:
    """The status to write: what was written ``before``, made to say where the job stands ``at`` this time."""
    assert now.phase is not None
    moved = (before.get("state") or {}).get("phase") != now.phase
    since = stamp(at) if moved else before["state"].get("lastTransitionTime") or stamp(at)
    state = {"phase": now.phase.value, "lastTransitionTime": since}
    state |= {name: text for name, text in (("reason", now.reason), ("message", now.message)) if text}
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
    """How long the job ran the last time, until it got into another phase; empty if it never ran."""
    for entry, following in zip(reversed(conditions[:-1]), reversed(conditions), strict=False):
        if entry.get("status") == Phase.RUNNING:
            return duration(moment(following.get("lastTransitionTime")) - moment(entry.get("lastTransitionTime")))
    return ""


def duration(seconds: float) -> str:
    """A length of time as Go writes it: 1h2m3s."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"
