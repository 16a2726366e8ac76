"""A manifest becomes the objects it stands for, as the controllers of a cluster would make them.

Most are one object of the model and are read by ``kube``. Two are more: a Job (``batch.volcano.sh``) is a
PodGroup of its name with its pods, and a waiting Pod without a group is a group of its own. What is wrong with
a pod of a Job is said of the Job's template, where its author can mend it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import field

from pumice.kube import wire
from pumice.kube.convert import decode
from pumice.kube.errors import FieldError, ObjectError
from pumice.kube.hierarchy_entries import check_entries
from pumice.kube.pods import GROUP_NAME, TASK_SPEC
from pumice.kube.policies import longest_wait, preemptable, queue_name, user
from pumice.kube.reading import check_name, check_printable, microseconds, read
from pumice.model.events import Described
from pumice.model.objects import DEFAULT_QUEUE, ROOT, JobSpec, Queue, TaskSpec, TaskStatus
from pumice.model.resources import Registry
from pumice.model.root_queue import fields_without_effect
from pumice.sim.objects import KINDS
from pumice.sim.problems import did_you_mean

JOB_VERSION = "batch.volcano.sh/v1alpha1"
NAMESPACED = ("Job", "Pod", "PodDisruptionBudget", "PodGroup", "ResourceQuota")
KNOWN = (*KINDS, "Job", "Namespace", "PodDisruptionBudget", "Scenario")


@dataclass(frozen=True, slots=True)
class Translated:
    """What a manifest amounts to. ``name`` is how errors call it: Queue/dev, Job/default/train."""

    name: str
    parts: tuple[Described, ...]


def pods_of_job(translated: Translated) -> list[str]:
    """The pods that a Job stands for, and that its controller makes anew when they are gone."""
    is_job = translated.name.startswith("Job/")
    return [part.key for part in translated.parts if isinstance(part, TaskSpec) and is_job]


def translate(document: Mapping[str, Any], registry: Registry, created: int) -> Translated:
    """The objects a manifest stands for; raises ObjectError."""
    kind = document.get("kind")
    if kind not in KNOWN:
        hint = did_you_mean(str(kind), KNOWN) or f"; write one of {', '.join(KNOWN)}"
        raise ObjectError(name_of(document), "kind", f"{kind!r} is not known{hint}")
    name = name_of(document)
    if kind == "Job":
        return Translated(name, tuple(_expanded(document, registry, created)))
    if kind == "Queue":
        _check_entries(document, name)
    described = decode(document, registry=registry, created=created)
    if isinstance(described, Queue) and described.name == ROOT:
        for field, message in fields_without_effect(described):
            raise ObjectError(name, field, message)
    if isinstance(described, TaskSpec) and _needs_group(described):
        group = _group_of_one(described, read(document["metadata"], wire.Metadata), name)
        return Translated(name, (group, replace(described, job=group.key)))
    return Translated(name, () if described is None else (described,))


def _check_entries(document: Mapping[str, Any], name: str) -> None:
    """Refuse misspelt keys at any depth of a hierarchy, as admission does."""
    spec = document.get("spec")
    try:
        check_entries(spec.get("hierarchy") if isinstance(spec, Mapping) else None)
    except FieldError as error:
        raise ObjectError(name, error.field, error.message) from None


def name_of(document: Mapping[str, Any]) -> str:
    """Kind, namespace (where the kind has one) and name of an object that may lack any of them."""
    kind, metadata = document.get("kind"), document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    parts = [kind or "?", metadata.get("name") or "?"]
    if kind in NAMESPACED:
        parts.insert(1, metadata.get("namespace") or "default")
    return "/".join(map(str, parts))


def _needs_group(task: TaskSpec) -> bool:
    return task.job is None and task.managed and task.status is TaskStatus.PENDING


def _group_of_one(task: TaskSpec, metadata: wire.Metadata, subject: str) -> JobSpec:
    try:
        return JobSpec(
            namespace=task.namespace,
            name=task.name,
            queue=queue_name(metadata.annotations) or DEFAULT_QUEUE,
            created=task.created,
            user=user(metadata),
            longest_wait=longest_wait(metadata),
        )
    except FieldError as error:
        raise ObjectError(subject, error.field, error.message) from None


# ---- Job ---------------------------------------------------------------------------------------------------


class Template(wire.Wire, frozen=True):
    """What the pods of a task are made from."""

    metadata: wire.Metadata = wire.Metadata()
    spec: dict[str, Any] = field(default_factory=dict)  # ``kube`` reads it


class JobTask(wire.Wire, frozen=True):
    """So many pods made from one template."""

    name: str = ""
    replicas: wire.Count = 1
    min_available: wire.Count | None = None
    template: Template = Template()


class JobSpecification(wire.Wire, frozen=True):
    """What runs, and how much of it must start together."""

    tasks: tuple[JobTask, ...]
    min_available: wire.Count | None = None
    queue: str = ""
    priority_class_name: str = ""


class Job(wire.Object, frozen=True, kw_only=True):
    """A job of the batch API."""

    spec: JobSpecification


def _expanded(document: Mapping[str, Any], registry: Registry, created: int) -> Iterator[Described]:
    """The group of a Job, then its pods, NAME-TASK-INDEX."""
    subject = name_of(document)
    if document.get("apiVersion") != JOB_VERSION:
        given = document.get("apiVersion")
        raise ObjectError(subject, "apiVersion", f"{given!r} is not known for Job; write {JOB_VERSION}")
    try:
        job = read(document, Job)
        yield _group(job, created)
        roles: dict[str, int] = {}
        for i, task in enumerate(job.spec.tasks):
            role = task.name or f"default{i}"
            if roles.setdefault(role, i) != i:
                raise FieldError(f"spec.tasks[{i}].name", f"'{role}' is the name of another task already")
            yield from _pods(job, role, task, f"spec.tasks[{i}].template", registry, created)
    except FieldError as error:
        raise ObjectError(subject, error.field, error.message) from None


def _group(job: Job, created: int) -> JobSpec:
    metadata, spec = job.metadata, job.spec
    if not metadata.name:
        raise FieldError("metadata.name", "is missing, but needed")
    check_name(metadata.name, "metadata.name")
    check_name(metadata.namespace, "metadata.namespace")
    check_printable(spec.queue, "spec.queue")
    if metadata.creation_timestamp is not None:
        created = microseconds(metadata.creation_timestamp)
    minimums = {task.name or f"default{i}": task.min_available for i, task in enumerate(spec.tasks)}
    replicas = sum(task.replicas for task in spec.tasks)
    return JobSpec(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        queue=spec.queue or DEFAULT_QUEUE,
        created=created,
        min_member=replicas if spec.min_available is None else spec.min_available,
        min_task_member={role: least for role, least in minimums.items() if least},
        priority_class=spec.priority_class_name or None,
        user=user(metadata),
        longest_wait=longest_wait(metadata),
        preemptable=preemptable(metadata) is not False,
    )


def _pods(job: Job, role: str, task: JobTask, where: str, registry: Registry, created: int) -> Iterator[TaskSpec]:
    metadata = task.template.metadata
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job.metadata.name}-{role}-0",
            "namespace": job.metadata.namespace or "default",
            "labels": metadata.labels,
            "annotations": metadata.annotations | {GROUP_NAME: job.metadata.name, TASK_SPEC: role},
        },
        "spec": task.template.spec,
    }
    try:
        first = decode(pod, registry=registry, created=created)
    except ObjectError as error:
        raise FieldError(f"{where}.{error.field}", error.message) from None
    assert isinstance(first, TaskSpec)
    for index in range(task.replicas):
        yield replace(first, name=f"{job.metadata.name}-{role}-{index}")
