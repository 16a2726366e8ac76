"""Rules about the tasks of a Job: one function per rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.admission.cluster_view import ClusterView, template_request
from pumice.admission.jobs.job_defaults import least_of
from pumice.admission.queues.queue_parent import SUBDOMAIN
from pumice.admission.request import Object, Refusal, Request, spec_of

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TASKS = "spec.tasks"


def tasks_of(request: Request) -> list[Object]:
    """The tasks of the job under review."""
    return spec_of(request.object).get("tasks") or []


def has_tasks(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job needs at least one task."""
    if not tasks_of(request):
        yield Refusal("is empty; a job needs at least one task", TASKS)


def tasks_have_own_names(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Task names are unique and valid as parts of pod names."""
    seen: dict[str, int] = {}
    for i, task in enumerate(tasks_of(request)):
        name = str(task.get("name") or "")
        if not LABEL.fullmatch(name):
            rule = "lower case letters, digits and '-', at most 63 of them, a letter or digit first and last"
            yield Refusal(f"'{name[:70]}' is no name for a task; write {rule}", f"{TASKS}[{i}].name")
        elif name in seen:
            yield Refusal(f"'{name}' is the name of task {seen[name]} already; rename one", f"{TASKS}[{i}].name")
        seen.setdefault(name, i)


def numbers_are_not_negative(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Counts start at 0, and minSuccess at 1."""
    job = spec_of(request.object)
    counts = {f"spec.{name}": (job.get(name), 0) for name in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished")}
    counts["spec.minSuccess"] = (job.get("minSuccess"), 1)
    for i, task in enumerate(tasks_of(request)):
        counts |= {f"{TASKS}[{i}].{name}": (task.get(name), 0) for name in ("replicas", "minAvailable", "maxRetry")}
    for field, (number, least) in counts.items():
        if number is not None and number < least:
            yield Refusal(f"{number} given; write {least} or more", field)


def minimum_of_task_within_replicas(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """``minAvailable`` of a task is at most its replicas."""
    for i, task in enumerate(tasks_of(request)):
        replicas = task.get("replicas") or 0
        if least_of(task) > replicas:
            message = f"{least_of(task)} is more than the {replicas} replicas of the task"
            yield Refusal(message, f"{TASKS}[{i}].minAvailable")


def minimums_within_total(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """``minAvailable`` and ``minSuccess`` of the job are at most its replicas."""
    total = sum(task.get("replicas") or 0 for task in tasks_of(request))
    for name in ("minAvailable", "minSuccess"):
        number = spec_of(request.object).get(name) or 0
        if number > total and tasks_of(request):
            yield Refusal(f"{number} is more than the {total} replicas of all tasks together", f"spec.{name}")


def tasks_have_pods(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A template has containers, and valid resource requests."""
    for i, task in enumerate(tasks_of(request)):
        where = f"{TASKS}[{i}].template.spec"
        pod = (task.get("template") or {}).get("spec") or {}
        if not pod.get("containers"):
            yield Refusal("is missing, but needed: what the pods run", f"{where}.containers")
            continue
        try:
            template_request(pod, Registry(), where)
        except FieldError as error:
            yield Refusal(error.message, error.field)


def pods_can_be_named(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Pods are named JOB-TASK-INDEX, which must be a valid name."""
    for i, task in enumerate(tasks_of(request)):
        pod = f"{request.name or 'generated'}-{task.get('name')}-{max((task.get('replicas') or 0) - 1, 0)}"
        if len(pod) > 253 or not SUBDOMAIN.fullmatch(pod):
            message = f"its pods would be called {pod[:70]!r}; use a shorter or plainer name for the job or the task"
            yield Refusal(message, f"{TASKS}[{i}].name")


def dependencies_are_tasks(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A task depends on other tasks of the job."""
    names = {task.get("name") for task in tasks_of(request)}
    for i, task in enumerate(tasks_of(request)):
        for j, name in enumerate(_waits_for(task)):
            where = f"{TASKS}[{i}].dependsOn.name[{j}]"
            if name not in names:
                yield Refusal(f"there is no task '{name[:70]}' in this job", where)
            elif name == task.get("name"):
                yield Refusal(f"task '{name}' would wait for itself", where)


def dependencies_end(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Dependencies contain no cycle."""
    waits = {str(task.get("name")): [*_waits_for(task)] for task in tasks_of(request)}
    left = dict(waits)
    while ready := [name for name, others in left.items() if not any(other in left for other in others)]:
        for name in ready:
            del left[name]
    circle = [name for name in left if name not in waits[name]]  # a self-dependency is reported already
    if circle:
        yield Refusal(f"tasks wait for each other, so none can start: {', '.join(sorted(circle))}", TASKS)


def _waits_for(task: Object) -> list[str]:
    return (task.get("dependsOn") or {}).get("name") or []


def partitions_add_up(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The partitions of a task add up to its replicas."""
    for i, task in enumerate(tasks_of(request)):
        policy = task.get("partitionPolicy")
        if not policy:
            continue
        where, replicas = f"{TASKS}[{i}].partitionPolicy", task.get("replicas") or 0
        total, size, least = (policy.get(name) or 0 for name in ("totalPartitions", "partitionSize", "minPartitions"))
        if total * size != replicas:
            yield Refusal(f"{total} partitions of {size} pods are not the {replicas} replicas of the task", where)
        if least > total:
            yield Refusal(f"{least} is more than the {total} partitions there are", f"{where}.minPartitions")


def volumes_have_own_places(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Every volume has its own mount path, and names a claim or describes one."""
    seen: set[str] = set()
    for i, volume in enumerate(spec_of(request.object).get("volumes") or ()):
        path = volume.get("mountPath") or ""
        if not path:
            yield Refusal("is empty; write where the pods find the volume", f"spec.volumes[{i}].mountPath")
        elif path in seen:
            yield Refusal(f"{path[:70]!r} is used by another volume already", f"spec.volumes[{i}].mountPath")
        seen.add(path)
        if not volume.get("volumeClaimName") and volume.get("volumeClaim") is None:
            yield Refusal(
                "names no claim and describes none; write volumeClaimName or volumeClaim", f"spec.volumes[{i}]"
            )


RULES = (
    has_tasks,
    tasks_have_own_names,
    numbers_are_not_negative,
    minimum_of_task_within_replicas,
    minimums_within_total,
    tasks_have_pods,
    pods_can_be_named,
    dependencies_are_tasks,
    dependencies_end,
    partitions_add_up,
    volumes_have_own_places,
)
