"""Converts pods to tasks: their requests, job and status."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec.structs import replace

from kubebase.pod_request import pod_request
from kubebase.resource_vector import Registry, milli_amounts
from pumice.kube.decode import api_types
from pumice.kube.decode.placement import claims, constraints
from pumice.kube.decode.preemption_annotations import preemptable, preempts
from pumice.kube.decode.struct_decode import microseconds, one_of
from pumice.model.specs import TaskSpec, TaskStatus, Vector

GROUP_NAME = "scheduling.k8s.io/group-name"
TASK_SPEC = "volcano.sh/task-spec"
PLACED_BY = "pumice.dev/placed-by"
"""The annotation of pods that Pumice bound: only their late bindings are taken back on overcommitted nodes."""

GPU_INDEX = "volcano.sh/gpu-index"
"""The cards of its node that a pod uses, with commas between."""

PlainAmounts: TypeAlias = tuple[tuple[tuple[tuple[str, object], ...], tuple[tuple[str, object], ...]], ...]
"""Requests and limits of containers."""

_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def task(pod: api_types.Pod, namespace: str, created: int, registry: Registry, schedulers: Container[str]) -> TaskSpec:
    """The task that a pod is. It is ours to place if it names one of our schedulers, or none."""
    metadata, spec = pod.metadata, pod.spec
    annotations, labels = metadata.annotations, metadata.labels
    group = annotations.get(GROUP_NAME)
    ours = not spec.scheduler_name or spec.scheduler_name in schedulers
    managed = ours and not spec.scheduling_gates  # until somebody opens them, nobody may place it
    return TaskSpec(
        namespace=namespace,
        name=metadata.name,
        request=request_of(pod, registry),
        job=_job_key(namespace, group) if group else None,
        created=created,
        role=annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or "",
        priority=spec.priority,
        priority_class=spec.priority_class_name or None,
        node=spec.node_name or None,
        status=_status(pod),
        started=_started(pod.status),
        labels=labels,
        constraints=(constraints if managed else claims)(spec, namespace, labels),
        managed=managed,
        preemptable=preemptable(metadata),
        preempts=preempts(spec.preemption_policy, "spec.preemptionPolicy"),
        placed=PLACED_BY in annotations,
        cards=_cards(annotations.get(GPU_INDEX, "")) if spec.node_name else (),
        returns=any(owner.controller for owner in metadata.owner_references),
    )


def bound_task(task: TaskSpec, before: api_types.Pod, after: api_types.Pod) -> TaskSpec | None:
    """The task that a pod is after Pumice has bound it, from the task that it was before.

    None if more has changed than a binding changes: then the pod is to be converted. This takes a fraction of the time,
    and every pod is bound.
    """
    metadata, spec, status = after.metadata, after.spec, after.status
    if (
        PLACED_BY not in metadata.annotations
        or GPU_INDEX in metadata.annotations
        or not spec.node_name
        or before.spec.node_name
        or spec.scheduling_gates
        or status.phase != "Pending"
        or before.status.phase != "Pending"
        or status.container_statuses
        or metadata.deletion_timestamp is not None
        or replace(before.spec, node_name=spec.node_name) != spec
        or replace(before.metadata, annotations=metadata.annotations) != metadata
        or {**before.metadata.annotations, PLACED_BY: metadata.annotations[PLACED_BY]} != metadata.annotations
        or before.status.container_statuses
    ):
        return None
    return TaskSpec(
        namespace=task.namespace,
        name=task.name,
        request=task.request,
        job=task.job,
        created=task.created,
        role=task.role,
        priority=task.priority,
        priority_class=task.priority_class,
        node=spec.node_name,
        status=TaskStatus.BOUND,
        started=_started(status),
        labels=task.labels,
        constraints=task.constraints,
        managed=task.managed,
        preemptable=task.preemptable,
        preempts=task.preempts,
        placed=True,
        returns=task.returns,
    )


@lru_cache(maxsize=1 << 12)
def _job_key(namespace: str, group: str) -> str:
    """The key of a pod's job: one string for its pods, of which there may be a million."""
    return f"{namespace}/{group}"


def _cards(text: str) -> tuple[int, ...]:
    """The numbers of cards; what is no list of numbers names none."""
    if not text:
        return ()
    parts = text.split(",")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else ()


def request_of(pod: api_types.Pod, registry: Registry) -> Vector:
    """The request of a pod; during a resize of a container the largest of what it may hold."""
    amounts = _plain_amounts(pod)
    return _whole_request(pod, registry) if amounts is None else _plain_request(registry, len(registry), amounts)


def _plain_amounts(pod: api_types.Pod) -> PlainAmounts | None:
    """Requests and limits of each container if the request of the pod depends on nothing else; else None."""
    spec = pod.spec
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    for status in pod.status.container_statuses:
        if (status.allocated_resources or status.resources) and _is_resized(spec.containers, status):
            return None
    found = []  # a generator would cost more than what it yields: most pods have one container
    for container in spec.containers:
        resources = container.resources
        found.append((tuple(resources.requests.items()), tuple(resources.limits.items())))
    return tuple(found)


def _is_resized(containers: Sequence[api_types.Container], status: api_types.ContainerStatus) -> bool:
    """Whether a container may hold something else than its spec says."""
    requests = next((one.resources.requests for one in containers if one.name == status.name), None)
    given = status.resources.requests if status.resources is not None else None
    return any(each and each != requests for each in (status.allocated_resources, given))


@lru_cache(maxsize=1 << 12)  # the pods of a job are alike, and each is converted whenever its status changes
def _plain_request(registry: Registry, resources: int, amounts: PlainAmounts) -> Vector:
    """The request of a pod of plain containers. ``resources``: how many the registry knows, the length of vectors."""
    found = ({"resources": {"requests": dict(requests), "limits": dict(limits)}} for requests, limits in amounts)
    return pod_request(registry, found)


def _whole_request(pod: api_types.Pod, registry: Registry) -> Vector:
    spec, status = pod.spec, pod.status
    return pod_request(
        registry,
        _containers(spec.containers, status.container_statuses, "spec.containers"),
        _containers(spec.init_containers, status.init_container_statuses, "spec.initContainers"),
        spec.overhead,
        _requirements(spec.resources) if spec.resources is not None else None,
    )


def _containers(
    containers: Sequence[api_types.Container], statuses: Sequence[api_types.ContainerStatus], where: str
) -> list[dict[str, object]]:
    found = {status.name: status for status in statuses}
    return [
        {
            "resources": _resized(container.resources, found.get(container.name), f"{where}[{position}]"),
            "restartPolicy": container.restart_policy,
        }
        for position, container in enumerate(containers)
    ]


def _resized(
    resources: api_types.Resources, status: api_types.ContainerStatus | None, where: str
) -> dict[str, api_types.Quantities | None]:
    """The resources of a container: during a resize the largest of spec, allocation and what it has been given.

    The kubelet rejects a pod for which there is room only by the spec of a container that it has not shrunk yet.
    """
    requests = resources.requests
    allocated = status.allocated_resources if status is not None else None
    given = status.resources.requests if status is not None and status.resources is not None else None
    resized = [each for each in (allocated, given) if each and each != requests]
    if not resized:
        return _requirements(resources)
    largest = milli_amounts(resources.limits | requests, where=f"{where}.resources")
    for amounts in resized:
        for name, milli in milli_amounts(amounts, where=f"{where}: its status").items():
            largest[name] = max(largest.get(name, 0), milli)
    return {"requests": {name: f"{milli}m" for name, milli in largest.items()}, "limits": None}


def _requirements(resources: api_types.Resources) -> dict[str, api_types.Quantities | None]:
    return {"requests": resources.requests, "limits": resources.limits}


def _started(status: api_types.PodStatus) -> int:
    """When a pod was bound, by the API server's clock; without that, when its node started it."""
    since = None
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            since = condition.last_transition_time
            break
    since = since or status.start_time
    return microseconds(since) if since is not None else 0


def _status(pod: api_types.Pod) -> TaskStatus:
    phase, node = pod.status.phase or "Pending", pod.spec.node_name
    match one_of(phase, _PHASES, "status.phase"):
        case "Succeeded":
            return TaskStatus.SUCCEEDED
        case "Failed":
            return TaskStatus.FAILED
    if pod.metadata.deletion_timestamp is not None:
        # Nothing starts a pod that is being deleted; one without a node is as good as gone.
        return TaskStatus.RELEASING if node else TaskStatus.FAILED
    if not node:
        return TaskStatus.PENDING
    return TaskStatus.RUNNING if phase == "Running" else TaskStatus.BOUND
