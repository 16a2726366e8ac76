"""A Job's spec, parsed once. Missing admission defaults are filled in here.

The API server has validated documents against the CRD; the parser handles whatever that lets through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pumice.admission.jobs.job_arrays import ARRAY, ArrayError, JobArray, parse_array
from pumice.admission.jobs.job_defaults import MAX_RETRY, least_of
from pumice.admission.jobs.job_order import AFTER, OrderError, Upstream, parse_after
from pumice.kube.resources import Document
from pumice.model.duration import DurationError, microseconds_of

DEFAULT_SCHEDULER = "volcano"
"""The scheduler name of pods where neither the job nor admission has set one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The action for an event, or for an exit code."""

    events: tuple[str, ...]
    action: str
    exit_code: int = 0
    """0: the policy matches events."""
    timeout: float = 0.0
    """How many seconds the event must last."""


@dataclass(frozen=True, slots=True)
class Task:
    """A number of equal pods."""

    name: str
    replicas: int
    least: int
    """How many of them start with the job."""
    says_least: bool
    template: Document
    policies: tuple[Policy, ...] = ()
    max_retry: int = MAX_RETRY
    """Container restarts after which the task has failed; -1: unlimited."""
    waits_for: tuple[str, ...] = ()
    one_is_enough: bool = False
    partition_size: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as far as its controller needs it."""

    namespace: str
    name: str
    uid: str
    generation: int
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    tasks: tuple[Task, ...]
    policies: tuple[Policy, ...]
    min_available: int
    min_success: int | None
    max_retry: int
    ttl: int | None
    queue: str
    priority_class: str
    scheduler: str
    plugins: Mapping[str, tuple[str, ...]]
    volumes: tuple[Document, ...]
    network_topology: Mapping[str, Any]
    leaving: bool
    array: JobArray | None = None
    after: tuple[Upstream, ...] = ()
    """The jobs that it starts after."""

    @property
    def replicas(self) -> int:
        """The pods of all tasks."""
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> Task | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    @property
    def has_policies(self) -> bool:
        """Whether any policy can apply."""
        return bool(self.policies) or any(task.policies for task in self.tasks)

    @property
    def heeds_updates(self) -> bool:
        """Whether a policy refers to updates of the job itself."""
        return any("JobUpdated" in policy.events for policy in self.policies)


def read_job(document: Document) -> Job:
    """The job that a document describes."""
    about, spec = document["metadata"], document.get("spec") or {}
    tasks = tuple(_task(task, i) for i, task in enumerate(spec.get("tasks") or ()))
    max_retry, min_available = spec.get("maxRetry"), spec.get("minAvailable")
    return Job(
        namespace=about["namespace"],
        name=about["name"],
        uid=about["uid"],
        generation=about.get("generation") or 0,
        annotations=about.get("annotations") or {},
        labels=about.get("labels") or {},
        tasks=tasks,
        policies=_policies(spec),
        min_available=sum(task.least for task in tasks) if min_available is None else min_available,
        min_success=spec.get("minSuccess"),
        max_retry=MAX_RETRY if max_retry is None else max_retry,
        ttl=spec.get("ttlSecondsAfterFinished"),
        queue=spec.get("queue") or "",
        priority_class=spec.get("priorityClassName") or "",
        scheduler=spec.get("schedulerName") or DEFAULT_SCHEDULER,
        plugins={name: tuple(arguments or ()) for name, arguments in (spec.get("plugins") or {}).items()},
        volumes=tuple(spec.get("volumes") or ()),
        network_topology=spec.get("networkTopology") or {},
        leaving="deletionTimestamp" in about,
        array=_array(about, tasks),
        after=_after(about),
    )


def _array(about: Document, tasks: tuple[Task, ...]) -> JobArray | None:
    """The array that a job is; None if it is none, or admission would have rejected it."""
    text = (about.get("annotations") or {}).get(ARRAY)
    try:
        array = parse_array(text) if text else None
    except ArrayError:
        return None
    return array if array and [task.replicas for task in tasks] == [len(array.indexes)] else None


def _after(about: Document) -> tuple[Upstream, ...]:
    text = (about.get("annotations") or {}).get(AFTER)
    try:
        return parse_after(text) if text else ()
    except OrderError:
        return ()


def _task(task: Document, position: int) -> Task:
    replicas = 1 if task.get("replicas") is None else task["replicas"]
    depends, partitions = task.get("dependsOn") or {}, task.get("partitionPolicy") or {}
    max_retry = task.get("maxRetry")
    return Task(
        name=task.get("name") or f"default{position}",
        replicas=replicas,
        least=min(least_of({**task, "replicas": replicas}), replicas),
        says_least=task.get("minAvailable") is not None,
        template=task.get("template") or {},
        policies=_policies(task),
        max_retry=MAX_RETRY if max_retry is None else max_retry,
        waits_for=tuple(depends.get("name") or ()),
        one_is_enough=depends.get("iteration") == "any",
        partition_size=partitions.get("partitionSize") or 0,
    )


def _policies(part: Mapping[str, Any]) -> tuple[Policy, ...]:
    return tuple(_policy(policy) for policy in part.get("policies") or ())


def _policy(policy: Document) -> Policy:
    event = policy.get("event")
    return Policy(
        events=(*([event] if event else []), *(policy.get("events") or ())),
        action=policy.get("action") or "",
        exit_code=policy.get("exitCode") or 0,
        timeout=_seconds(policy.get("timeout") or ""),
    )


def _seconds(text: str) -> float:
    """A duration in seconds; ``0s`` means at once."""
    try:
        return microseconds_of(text) / 1e6
    except DurationError:
        return 0.0
