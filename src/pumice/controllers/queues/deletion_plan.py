"""What has to go before a queue that is being deleted can: everything in it and below it.

First its entry goes from the hierarchies that name it, else it would be made again; then the queues below it, each of
which does the same; then its jobs, whose podgroups and pods go with them; then the podgroups that are left, and their
pods before them. When nothing is left the finalizer goes, and with it the queue. ``remains`` says what comes next. It
is asked again whenever something has gone, also by another process after this one has died.
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
    """Something that has to go."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    leaving: bool
    """Whether it is on its way already."""


def next_to_delete(
    queue: str,
    below: Iterable[Object],
    jobs: Iterable[Document],
    groups: Iterable[Document],
    pods: Iterable[Document],
) -> list[DeletionTarget]:
    """What has to go next; nothing: the queue itself may."""
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
    """An object that has to go."""
    about = found["metadata"]
    return DeletionTarget(
        resource, about.get("namespace", ""), about["name"], about["uid"], "deletionTimestamp" in about
    )
