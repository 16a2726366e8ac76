"""Expand a Job (``batch.volcano.sh``) into its PodGroup and pods, as the job controller would create them.

The admission rules validate a Job. This module declares only the types of the fields that those rules read, which the
CRD schema of an API server guarantees. An error in a pod is reported for the template of the Job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import field

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.kube.decode import api_types
from pumice.kube.decode.convert import decode
from pumice.kube.decode.hyper_nodes import network_topology
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.pods import GROUP_NAME, TASK_SPEC
from pumice.kube.decode.preemption_annotations import longest_wait, preemptable, user
from pumice.kube.decode.struct_decode import check_name, check_printable, microseconds, read
from pumice.kube.decode.task_topology import task_topology
from pumice.model.specs import DEFAULT_QUEUE, Described, JobSpec, TaskSpec

JOB_VERSION = "batch.volcano.sh/v1alpha1"


class Template(api_types.Wire, frozen=True):
    """The pod template of a task."""

    metadata: api_types.Metadata = api_types.Metadata()
    spec: dict[str, Any] = field(default_factory=dict)  # ``kube`` reads it


class Policy(api_types.Wire, frozen=True):
    """A lifecycle policy: an action for events or exit codes."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: api_types.Int32 | None = None


class DependsOn(api_types.Wire, frozen=True):
    """The tasks that a task waits for."""

    name: tuple[str, ...] = ()


class PartitionPolicy(api_types.Wire, frozen=True):
    """The partitions of the pods of a task."""

    total_partitions: api_types.Int32 = 0
    partition_size: api_types.Int32 = 0
    min_partitions: api_types.Int32 = 0


class JobTask(api_types.Wire, frozen=True):
    """A task: replicas of one pod template."""

    name: str = ""
    replicas: api_types.Int32 = 1
    min_available: api_types.Int32 | None = None
    max_retry: api_types.Int32 | None = None
    template: Template = Template()
    policies: tuple[Policy, ...] = ()
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class Volume(api_types.Wire, frozen=True):
    """A volume of all pods."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class JobSpecification(api_types.Wire, frozen=True):
    """The spec of a Job."""

    tasks: tuple[JobTask, ...] = ()
    min_available: api_types.Int32 | None = None
    min_success: api_types.Int32 | None = None
    max_retry: api_types.Int32 | None = None
    ttl_seconds_after_finished: api_types.Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""
    scheduler_name: str = ""
    policies: tuple[Policy, ...] = ()
    volumes: tuple[Volume, ...] = ()
    plugins: dict[str, Any] = field(default_factory=dict)
    network_topology: api_types.NetworkTopology | None = None


class JobState(api_types.Wire, frozen=True):
    """The state in the status of a Job."""

    phase: str = ""


class JobStatus(api_types.Wire, frozen=True):
    """The status of a Job."""

    state: JobState = JobState()


class Job(api_types.Object, frozen=True, kw_only=True):
    """A job of the batch API."""

    spec: JobSpecification
    status: JobStatus = JobStatus()


def expand_job(document: Mapping[str, Any], subject: str, registry: Registry, created: int) -> Iterator[Described]:
    """The group of a Job, then its pods, NAME-TASK-INDEX; raises ObjectError about ``subject``."""
    if document.get("apiVersion") != JOB_VERSION:
        given = document.get("apiVersion")
        raise ObjectError(subject, "apiVersion", f"{given!r} is not known for Job; write {JOB_VERSION}")
    try:
        job = read(document, Job)
        yield _group(job, created)
        for i, task in enumerate(job.spec.tasks):
            yield from _pods(job, task.name or f"default{i}", task, f"spec.tasks[{i}].template", registry, created)
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
        topology=network_topology(spec.network_topology),
        task_topology=task_topology(metadata.annotations),
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
        yield replace(first, name=f"{job.metadata.name}-{role}-{index}", returns=True)
