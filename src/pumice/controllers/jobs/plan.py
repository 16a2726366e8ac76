"""Compute the next writes for a job from the observed state. Pure: the same observation gives the same writes.

First the status: it records the job's state before anything follows from it. Then the executed Command is deleted, then
objects are created or deleted as the job requires. A crash may interrupt this at any point; the next reconcile finds
what is still to be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pumice.controllers.jobs.dependencies import released
from pumice.controllers.jobs.job_status import Counts, JobStatus, blocked_message, count, read_standing, written
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.jobs.plugins import plugins_of
from pumice.controllers.jobs.pod_index import PodIndex, PodRecord, index_pods, pod_name, read_pod_record
from pumice.controllers.jobs.podgroup import group_name, group_of, patch_of_group, spec_of_group
from pumice.controllers.jobs.pods import CLAIMS, claims, pod_of
from pumice.controllers.jobs.spec import Job, read_job
from pumice.controllers.jobs.state_machine import next_transition
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, PODS, Document, Resource

ENTERED = ("Inqueue", "Running", "Unknown", "Completed")
"""Phases of a podgroup that the scheduler has enqueued."""


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Write the job's status, if the job is still the one that was observed."""

    status: Document


@dataclass(frozen=True, slots=True)
class Make:
    """Create an object; an existing one of that name will do."""

    resource: Resource[Any]
    document: Document


@dataclass(frozen=True, slots=True)
class Keep:
    """Create an object, if the cluster has such a resource, and keep its ``data`` as given here."""

    resource: Resource[Any]
    document: Document


@dataclass(frozen=True, slots=True)
class Change:
    """Patch an object."""

    resource: Resource[Any]
    name: str
    uid: str
    patch: Document


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete this very object."""

    resource: Resource[Any]
    name: str
    uid: str


Write = SetStatus | Make | Keep | Change | Remove


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes in order, the Events to record, and when to reconcile again without a change."""

    writes: Sequence[Write] = ()
    says: Sequence[tuple[str, str]] = ()
    """Reason and message of Events."""
    again: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """Everything that a plan is based on."""

    job: Document
    group: Document | None
    pods: Sequence[Document]
    commands: Sequence[Document] = field(default=())
    """Commands for this job, in the order of their creation."""
    refused_claim: str = ""
    """Why a claim of the job could not be created, if the last attempt failed."""
    upstream: Mapping[str, str] = field(default_factory=dict)
    """The phases of the jobs that it starts after, by name; those that do not exist are missing."""
    created: frozenset[str] = frozenset()
    """The names of pods that were created, and that the informer does not show yet."""


def plan(seen: ObservedJob, now: float) -> Plan:
    """Compute the next writes."""
    job, standing = read_job(seen.job), read_standing(seen.job)
    if job.leaving:
        return Plan([_removed(COMMANDS, command) for command in seen.commands])
    members = index_pods(job, map(read_pod_record, seen.pods), standing.version, standing.restarts)
    step = next_transition(job, standing, members, seen.group, seen.commands, now, seen.upstream)
    after = step.standing
    if (after.version, after.restarts) != (standing.version, standing.restarts):
        members = index_pods(job, members, after.version, after.restarts)
    counts = count(job, members)
    status = seen.job.get("status") or {}
    new = written(job, status, after, counts, now, blocked_message(members), seen.refused_claim)
    writes: list[Write] = [SetStatus(new)] if new != status else []
    if step.obeyed is not None:
        writes.append(_removed(COMMANDS, step.obeyed))
    expires = _expiry(job, after, now)
    if expires is not None and expires <= now and after.phase is standing.phase:
        return Plan([*writes, Remove(JOBS, job.name, job.uid)], step.says)
    writes += _consequences(job, after, members, counts, seen)
    times = [time for time in (step.again, expires) if time is not None]
    return Plan(writes, step.says, min(times, default=None))


def _consequences(
    job: Job, standing: JobStatus, members: PodIndex, counts: Counts, seen: ObservedJob
) -> Iterator[Write]:
    """The objects that a job in this state should have, or should not."""
    phase, group = standing.phase, seen.group
    assert phase is not None
    if phase.is_active:
        if standing.may_start or not job.after:
            yield from _upkeep(job, standing, members, seen)
        return
    for member in (*members.old, *(one for one in members.current.values() if not one.finished)):
        if not member.leaving:
            yield _gone(member)
    # A completed job keeps its podgroup as long as its pods; without pods the group would wait in its queue for ever.
    stays = phase is Phase.COMPLETED and any(True for _ in members)
    if phase.is_over and group is not None and not counts.active and not stays:
        yield _removed(POD_GROUPS, group)


def _upkeep(job: Job, standing: JobStatus, members: PodIndex, seen: ObservedJob) -> Iterator[Write]:
    may_start, group = released(job, members), seen.group
    if group is None:
        yield Make(POD_GROUPS, group_of(job, may_start))
    else:
        patch = patch_of_group(group, spec_of_group(job, may_start))
        if patch is not None:
            yield Change(POD_GROUPS, group_name(job), group["metadata"]["uid"], patch)
    # From the highest index down: superfluous pods are deleted before those that are only recreated.
    for member in sorted(members.old, key=lambda one: -one.index):
        if not member.leaving:
            yield _gone(member)
    if ((group or {}).get("status") or {}).get("phase") not in ENTERED:
        return
    for plugin in plugins_of(job):
        for resource, document in plugin.objects(job):
            yield Keep(resource, document)
    for claim in claims(job):
        yield Keep(CLAIMS, claim)
    taken = members.names | seen.created
    missing = (
        (task, index)
        for task in job.tasks
        if task.name in may_start
        for index in range(task.replicas)
        if pod_name(job, task, index) not in taken
    )
    for task, index in islice(missing, _room(job, members, seen.created)):
        yield Make(PODS, pod_of(job, task, index, standing))


def _room(job: Job, members: PodIndex, created: frozenset[str]) -> int | None:
    """How many more pods an array may have now; None: any number. A pod counts until it has finished or is gone."""
    if job.array is None or not job.array.limit:
        return None
    unfinished = {member.name for member in members if not member.finished}
    return max(0, job.array.limit - len(unfinished | created))


def _expiry(job: Job, standing: JobStatus, now: float) -> float | None:
    """When a finished job is to be deleted."""
    if job.ttl is None or standing.phase is None or not standing.phase.is_final:
        return None
    return (standing.since or now) + job.ttl


def _gone(member: PodRecord) -> Remove:
    return Remove(PODS, member.name, member.uid)


def _removed(resource: Resource[Any], document: Document) -> Remove:
    return Remove(resource, document["metadata"]["name"], document["metadata"]["uid"])
