"""The podgroup of a job: how many of its pods must start together, and their resources."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import zip_longest

from kubebase.field_error import FieldError
from kubebase.resource_vector import PODS, Registry, Vector, add
from pumice.admission.cluster_view import template_request
from pumice.admission.routing import ROUTED
from pumice.controllers.jobs.dependencies import minimum
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import JOBS, POD_GROUPS, Document

NOT_COPIED = "kubectl.kubernetes.io/"
"""Prefixes of annotations that concern the job's document, not the job."""


def group_name(job: Job) -> str:
    """The name of the group, which no earlier job had."""
    return f"{job.name}-{job.uid}"


def owner(job: Job) -> Document:
    """The owner reference to a job."""
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def group_of(job: Job, may_start: frozenset[str]) -> Document:
    """The podgroup of a job of which these tasks may start."""
    about: Document = {"name": group_name(job), "namespace": job.namespace, "ownerReferences": [owner(job)]}
    annotations = {
        name: text for name, text in job.annotations.items() if not name.startswith(NOT_COPIED) and name != ROUTED
    }
    if annotations:
        about["annotations"] = annotations
    if job.labels:
        about["labels"] = dict(job.labels)
    spec = spec_of_group(job, may_start)
    if job.queue:
        spec["queue"] = job.queue
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": about, "spec": spec}


def spec_of_group(job: Job, may_start: frozenset[str]) -> Document:
    """The part of a podgroup's spec that follows its job: all but the queue, which admission may have chosen."""
    spec: Document = {"minMember": minimum(job, may_start)}
    tasks = [task for task in job.tasks if task.name in may_start]
    least = {task.name: task.least for task in tasks if task.says_least and task.least}
    if least:
        spec["minTaskMember"] = least
    resources = _resources(tasks, spec["minMember"])
    if resources:
        spec["minResources"] = resources
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.network_topology:
        spec["networkTopology"] = dict(job.network_topology)
    return spec


def patch_of_group(group: Document, wanted: Document) -> Document | None:
    """The patch that brings a podgroup's spec to the wanted one; None if it is equal."""
    spec = group.get("spec") or {}
    patch: Document = {}
    for name in ("minMember", "minTaskMember", "minResources", "priorityClassName", "networkTopology"):
        there, new = spec.get(name), wanted.get(name)
        if (there or None) == (new or None):
            continue
        gone = dict.fromkeys(there.keys() - new.keys()) if isinstance(there, dict) and isinstance(new, dict) else {}
        patch[name] = {**gone, **new} if isinstance(new, dict) else new
    return {"spec": patch} if patch else None


def _resources(tasks: list[Task], pods: int) -> dict[str, str]:
    """The least that so many pods may request: those that the tasks require, and then the smallest.

    Any pods of a job may make up its minimum. If the sum counted larger ones, a job would not be let in although its
    small tasks could run.
    """
    registry = Registry()
    requests = {task.name: _request(task, registry) for task in tasks}
    total: Vector = ()
    for task, number in _smallest(tasks, pods, requests):
        total = add(total, [amount * number for amount in requests[task.name]])
    named = registry.format(total)
    return {name: amount for name, amount in named.items() if name != registry.names[PODS]}


def _smallest(tasks: list[Task], pods: int, requests: dict[str, Vector]) -> Iterator[tuple[Task, int]]:
    """So many pods: first those that the tasks require, then the rest, the smallest first."""
    required = {task.name: task.least if task.says_least else 0 for task in tasks}
    most = [max(amounts) for amounts in zip_longest(*requests.values(), fillvalue=0)]

    def size(task: Task) -> Fraction:
        """The sum of what a task requests, each resource as a fraction of the most that any task requests."""
        return sum((Fraction(n, top) for n, top in zip(requests[task.name], most, strict=False) if n), Fraction(0))

    line = [(task, required[task.name]) for task in tasks]
    line += [(task, task.replicas - required[task.name]) for task in sorted(tasks, key=size)]
    for task, number in line:
        some = min(number, pods)
        pods -= some
        if some:
            yield task, some


def _request(task: Task, registry: Registry) -> Vector:
    try:
        return template_request(task.template.get("spec") or {}, registry, "")
    except FieldError:
        return ()  # admission will reject its pods with a message
