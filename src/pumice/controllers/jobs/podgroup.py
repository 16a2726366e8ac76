"""The podgroup of a job: how many of its pods must start together, and their resources."""

from __future__ import annotations

from collections.abc import Iterator

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
    """The request of that many pods: first those that the tasks require, then the rest, task by task."""
    registry = Registry()
    total: Vector = ()
    for task, number in _first(tasks, pods):
        total = add(total, [amount * number for amount in _request(task, registry)])
    named = registry.format(total)
    return {name: amount for name, amount in named.items() if name != registry.names[PODS]}


def _first(tasks: list[Task], pods: int) -> Iterator[tuple[Task, int]]:
    for numbers in ([task.least for task in tasks], [task.replicas - task.least for task in tasks]):
        for task, number in zip(tasks, numbers, strict=True):
            some = min(number, pods)
            pods -= some
            if some:
                yield task, some


def _request(task: Task, registry: Registry) -> Vector:
    try:
        return template_request(task.template.get("spec") or {}, registry, "")
    except FieldError:
        return ()  # admission will reject its pods with a message
