"""The pods of a job by task and version, and their progress.

A pod carries the version of the job, and the number of restarts of its task (or part of it), that it was created for.
One created for an earlier version, or before a restart, is *old*: it will be deleted and no longer counts. So is one
whose index exceeds the replicas of its task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.decode.pods import TASK_SPEC
from pumice.kube.resources import Document

JOB_NAME: Final = "volcano.sh/job-name"
JOB_VERSION: Final = "volcano.sh/job-version"
TASK_INDEX: Final = "volcano.sh/task-index"
RESTARTS: Final = "pumice.dev/restarts"
"""How often a pod's task, partition or predecessors had been restarted when it was created, within its version."""

PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN = "Pending", "Running", "Succeeded", "Failed", "Unknown"
FINISHED = (SUCCEEDED, FAILED)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod of a job."""

    name: str
    uid: str
    task: str
    index: int
    version: int
    restarts: int
    phase: str
    leaving: bool
    document: Document

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in FINISHED

    @property
    def created(self) -> float:
        """Creation time."""
        return moment(self.document["metadata"].get("creationTimestamp"))

    @property
    def started(self) -> float:
        """When its node accepted it."""
        return moment((self.document.get("status") or {}).get("startTime")) or self.created

    @property
    def ended(self) -> float:
        """When the last of its containers ended; if none has, its creation time."""
        return max((moment(end.get("finishedAt")) for end in _ends(self.document)), default=0.0) or self.created

    @property
    def exit_code(self) -> int:
        """The exit code: the first that is not 0, if there is one."""
        return next((code for end in _ends(self.document) if (code := int(end.get("exitCode") or 0))), 0)

    @property
    def container_restarts(self) -> int:
        """How often its containers were restarted."""
        return sum(int(entry.get("restartCount") or 0) for entry in _containers(self.document))

    @property
    def asked_to_leave(self) -> float:
        """Time of its deletion request."""
        about = self.document["metadata"]
        return moment(about.get("deletionTimestamp")) - (about.get("deletionGracePeriodSeconds") or 0)


def read_pod_record(pod: Document) -> PodRecord:
    """Read a pod that a job owns. One without version annotations has no version."""
    about = pod["metadata"]
    said: Mapping[str, str] = about.get("annotations") or {}
    index = (about.get("labels") or {}).get(TASK_INDEX) or about["name"].rpartition("-")[2]
    return PodRecord(
        name=about["name"],
        uid=about["uid"],
        task=said.get(TASK_SPEC, ""),
        index=_number(index),
        version=_number(said.get(JOB_VERSION, "")),
        restarts=_number(said.get(RESTARTS, "0")),
        phase=(pod.get("status") or {}).get("phase") or PENDING,
        leaving="deletionTimestamp" in about,
        document=pod,
    )


@dataclass(frozen=True, slots=True)
class PodIndex:
    """The pods of a job, classified."""

    current: Mapping[tuple[str, int], PodRecord]
    """By task and index, the current pods; in the order of the tasks."""
    old: tuple[PodRecord, ...]

    def __iter__(self) -> Iterator[PodRecord]:
        yield from self.current.values()
        yield from self.old

    def of(self, task: Task) -> list[PodRecord]:
        """The current pods of a task."""
        places = ((task.name, index) for index in range(task.replicas))
        return [self.current[place] for place in places if place in self.current]

    @property
    def names(self) -> frozenset[str]:
        """The names in use."""
        return frozenset(member.name for member in self)


def index_pods(job: Job, members: Iterable[PodRecord], version: int, restarts: Mapping[str, int]) -> PodIndex:
    """Classify pods for this version and these restarts."""
    tasks = {task.name: (position, task) for position, task in enumerate(job.tasks)}
    current, old = [], []
    for member in members:
        position, task = tasks.get(member.task, (0, None))
        if (
            task is not None
            and 0 <= member.index < task.replicas
            and member.name == pod_name(job, task, member.index)
            and member.version == version
            and member.restarts >= restarts_of(task, member.index, restarts)
        ):
            current.append((position, member.index, member))
        else:
            old.append(member)
    current.sort(key=lambda place: place[:2])
    return PodIndex(
        {(member.task, index): member for _, index, member in current},
        tuple(sorted(old, key=lambda member: (member.task, member.index, member.name))),
    )


def pod_name(job: Job, task: Task, index: int) -> str:
    """The name of a pod. It is unique per task and index, so no index is ever used twice."""
    return f"{job.name}-{task.name}-{index}"


# ---- restarts within a version ------------------------------------------------------------------------------


def restarts_of(task: Task, index: int, restarts: Mapping[str, int]) -> int:
    """How many of the restarts concerned this pod."""
    return sum(restarts.get(scope, 0) for scope in scopes(task, index))


def scopes(task: Task, index: int) -> tuple[str, ...]:
    """The restart scopes of a pod: its task, its partition, itself. A task's name contains no dot."""
    partition = (f"{task.name}.p{index // task.partition_size}",) if task.partition_size else ()
    return (task.name, *partition, f"{task.name}.{index}")


# ---- reading pods --------------------------------------------------------------------------------------------


def _containers(pod: Document) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _ends(pod: Document) -> Iterator[Mapping[str, Any]]:
    for entry in _containers(pod):
        end = (entry.get("state") or {}).get("terminated")
        if end:
            yield end


def moment(text: str | None) -> float:
    """Parse a timestamp to seconds since 1970; 0 if there is none."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else -1
