"""What to delete before a terminating queue can go: everything in it and below it.

First its entry is removed from the hierarchies that name it, else it would be created again; then its child queues are
deleted, each of which does the same; then its jobs, whose podgroups and pods are garbage-collected; then the remaining
podgroups, and their pods before them. When nothing is left the finalizer is removed, and with it the queue.
``next_to_delete`` returns the next step. It is evaluated again after every deletion, also by another process after a
crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pumice.admission import Object
from pumice.admission.request import annotations_of, metadata_of
from pumice.controllers.queues.workload_counts import queue_of
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.resources import JOBS, POD_GROUPS, PODS, QUEUES, Document, Resource


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """An object to delete."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    leaving: bool
    """Whether it is terminating already."""


def next_to_delete(
    queue: str,
    below: Iterable[Object],
    jobs: Iterable[Document],
    groups: Iterable[Document],
    pods: Iterable[Document],
) -> list[DeletionTarget]:
    """The objects to delete next; none: the queue itself may go."""
    children = [deletion_target(QUEUES, child) for child in below]
    if children:
        return children
    own = [deletion_target(JOBS, job) for job in jobs if queue_of(job) == queue]
    if own:
        return own
    left = {_key(group): group for group in groups if queue_of(group) == queue}
    members = _members(left.keys(), pods) if left else ()
    return [*members, *(deletion_target(POD_GROUPS, group) for group in left.values())]


def _members(groups: Iterable[str], pods: Iterable[Document]) -> Iterator[DeletionTarget]:
    names = set(groups)
    for pod in pods:
        if f"{metadata_of(pod)['namespace']}/{annotations_of(pod).get(GROUP_NAME)}" in names:
            yield deletion_target(PODS, pod)


def _key(found: Object) -> str:
    about = found["metadata"]
    return f"{about['namespace']}/{about['name']}"


def deletion_target(resource: Resource[Any], found: Object) -> DeletionTarget:
    """The deletion target for an object."""
    about = found["metadata"]
    return DeletionTarget(
        resource, about.get("namespace", ""), about["name"], about["uid"], "deletionTimestamp" in about
    )
