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
MOST_TASKS = 1000
"""Task groups of a job; each may have any number of replicas. Every rule looks at each, while others wait."""


def tasks_of(request: Request) -> list[Object]:
    """The tasks of the job under review."""
    return spec_of(request.object).get("tasks") or []


def too_many_tasks(request: Request) -> list[Refusal]:
    """Refuse a job, or a cron job, with more tasks than rules can look at in a moment. Stored ones may go on."""
    for where, tasks, before in (
        (TASKS, spec_of(request.new or {}), spec_of(request.old or {})),
        (f"spec.jobTemplate.{TASKS}", _template_of(request.new), _template_of(request.old)),
    ):
        count = len(tasks.get("tasks") or ())
        if count > max(MOST_TASKS, len(before.get("tasks") or ())):
            return [Refusal(f"Too many: {count}: must have at most {MOST_TASKS} items", where)]
    return []


def _template_of(cron_job: Object | None) -> Object:
    return spec_of(spec_of(cron_job or {}).get("jobTemplate") or {})


def has_tasks(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job needs at least one task."""
    if not tasks_of(request):
        yield Refusal("Required value: a job needs at least one task", TASKS)


def tasks_have_own_names(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Task names are unique and valid as parts of pod names."""
    seen: dict[str, int] = {}
    for i, task in enumerate(tasks_of(request)):
        name = str(task.get("name") or "")
        if not LABEL.fullmatch(name):
            rule = (
                "lower case letters, digits and '-', start and end with a letter or digit, and have at "
                "most 63 characters"
            )
            yield Refusal(f"Invalid value: '{name[:70]}': must consist of {rule}", f"{TASKS}[{i}].name")
        elif name in seen:
            yield Refusal(f"Duplicate value: '{name}': already the name of task {seen[name]}", f"{TASKS}[{i}].name")
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
            yield Refusal(f"Invalid value: {number}: must be greater than or equal to {least}", field)


def minimum_of_task_within_replicas(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """``minAvailable`` of a task is at most its replicas."""
    for i, task in enumerate(tasks_of(request)):
        replicas = task.get("replicas") or 0
        if least_of(task) > replicas:
            message = f"Invalid value: {least_of(task)}: must be less than or equal to the task's replicas ({replicas})"
            yield Refusal(message, f"{TASKS}[{i}].minAvailable")


def minimums_within_total(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """``minAvailable`` and ``minSuccess`` of the job are at most its replicas."""
    total = sum(task.get("replicas") or 0 for task in tasks_of(request))
    for name in ("minAvailable", "minSuccess"):
        number = spec_of(request.object).get(name) or 0
        if number > total and tasks_of(request):
            yield Refusal(
                f"Invalid value: {number}: must be less than or equal to the replicas of all tasks ({total})",
                f"spec.{name}",
            )


def tasks_have_pods(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A template has containers, and valid resource requests."""
    for i, task in enumerate(tasks_of(request)):
        where = f"{TASKS}[{i}].template.spec"
        pod = (task.get("template") or {}).get("spec") or {}
        if not pod.get("containers"):
            yield Refusal("Required value: a pod needs at least one container", f"{where}.containers")
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
            message = (
                f"Invalid value: pods would be named {pod[:70]!r}, which is not a valid name; use a shorter "
                "or simpler name for the job or the task"
            )
            yield Refusal(message, f"{TASKS}[{i}].name")


def dependencies_are_tasks(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A task depends on other tasks of the job."""
    names = {task.get("name") for task in tasks_of(request)}
    for i, task in enumerate(tasks_of(request)):
        for j, name in enumerate(_waits_for(task)):
            where = f"{TASKS}[{i}].dependsOn.name[{j}]"
            if name not in names:
                yield Refusal(f"Not found: '{name[:70]}': the job has no such task", where)
            elif name == task.get("name"):
                yield Refusal(f"Invalid value: '{name}': a task may not depend on itself", where)


def dependencies_end(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Dependencies contain no cycle."""
    waits = {str(task.get("name")): [*_waits_for(task)] for task in tasks_of(request)}
    missing = {name: {other for other in others if other in waits} for name, others in waits.items()}
    followers: dict[str, list[str]] = {}
    for name, others in missing.items():
        for other in others:
            followers.setdefault(other, []).append(name)
    ready = [name for name, others in missing.items() if not others]
    while ready:
        done = ready.pop()
        del missing[done]
        for name in followers.get(done, ()):
            missing[name].discard(done)
            if not missing[name]:
                ready.append(name)
    circle = [name for name in missing if name not in waits[name]]  # a self-dependency is reported already
    if circle:
        yield Refusal(f"Invalid value: tasks depend on each other in a cycle: {', '.join(sorted(circle))}", TASKS)


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
            yield Refusal(
                f"Invalid value: {total} partitions of {size} pods: must add up to the task's replicas ({replicas})",
                where,
            )
        if least > total:
            yield Refusal(
                f"Invalid value: {least}: must be less than or equal to totalPartitions ({total})",
                f"{where}.minPartitions",
            )


def volumes_have_own_places(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Every volume has its own mount path, and names a claim or describes one."""
    seen: set[str] = set()
    for i, volume in enumerate(spec_of(request.object).get("volumes") or ()):
        path = volume.get("mountPath") or ""
        if not path:
            yield Refusal("Required value: the path at which the pods mount the volume", f"spec.volumes[{i}].mountPath")
        elif path in seen:
            yield Refusal(
                f"Duplicate value: {path[:70]!r}: another volume has this mountPath", f"spec.volumes[{i}].mountPath"
            )
        seen.add(path)
        if not volume.get("volumeClaimName") and volume.get("volumeClaim") is None:
            yield Refusal("Required value: set volumeClaimName or volumeClaim", f"spec.volumes[{i}]")


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
