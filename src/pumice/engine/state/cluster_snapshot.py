"""A snapshot of the cluster state in plain values, sufficient to rebuild the same state.

The API objects alone do not suffice: the engine may have placed or evicted a task, or enqueued a job, with no object
showing it yet. So each task carries its status and node, and each job its phase.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engine.events import Changed
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.succession import was_replaced
from pumice.model.specs import Described, JobPhase, JobSpec, PodTerm, TaskSpec, TaskStatus


@dataclass(frozen=True, slots=True)
class AwaitedSuccessor:
    """An evicted task that is gone and has no successor, and since when."""

    spec: TaskSpec
    since: int | None = None


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job: its spec (None where only its pods are known) and its progress."""

    key: str
    spec: JobSpec | None
    phase: JobPhase
    whole: bool = False  # whether the cluster has shown all of its minimum since it last held nothing
    awaited: tuple[AwaitedSuccessor, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task: its spec, and its status and node by decision."""

    spec: TaskSpec
    status: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    started: int = 0
    owed: bool = True
    evicted: bool = False
    cards: tuple[int, ...] = ()
    replaced: bool = False  # whether it was evicted and has a successor already


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that a state knows, in an order in which it can be applied. Rebuilding needs nothing else."""

    objects: tuple[Described, ...] = ()  # all objects except jobs and tasks
    jobs: tuple[JobSnapshot, ...] = ()
    tasks: tuple[TaskSnapshot, ...] = ()
    terms: tuple[PodTerm, ...] = ()  # pod terms of current and former tasks (see ``task_shapes``)
    label_keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.objects) + len(self.jobs) + len(self.tasks)


def snapshot_cluster(state: ClusterState) -> ClusterSnapshot:
    """Take a snapshot of the state; tasks in the order in which they started."""
    quotas = (quota for found in state.quotas.values() for quota in found.values())
    hyper_nodes = state.domains.hyper_nodes.values()
    nodes = (node.spec for node in state.nodes.values() if node.spec is not None)
    tasks = sorted(state.tasks.values(), key=lambda task: (task.started, task.order))
    return ClusterSnapshot(
        (
            *state.priority_classes.values(),
            *state.budgets.values(),
            *quotas,
            *state.queues.values(),
            *hyper_nodes,
            *nodes,
        ),
        tuple(_job_snapshot(job) for job in state.jobs.values()),
        tuple(
            TaskSnapshot(
                task.spec,
                task.status,
                task.node.name if task.node is not None and task.status.has_node else None,
                task.started,
                task.owed,
                task.evicted,
                task.cards,
                task.job is not None and was_replaced(task.job, task),
            )
            for task in tasks
        ),
        *state.shapes.lessons,
    )


def _job_snapshot(job: Job) -> JobSnapshot:
    awaited = job.succession.awaited if job.succession is not None else ()
    successors = tuple(AwaitedSuccessor(one.task.spec, one.since) for one in awaited)
    return JobSnapshot(job.key, job.spec, job.phase, job.gang_was_complete, successors)


def restore_objects(state: ClusterState, was: ClusterSnapshot) -> None:
    """Restore everything except tasks into an empty state."""
    state.shapes.recall(was.terms, was.label_keys)
    for described in was.objects:
        state.apply(Changed(described))
    for job in was.jobs:
        state.restore_job(job.key, job.spec, job.phase, whole=job.whole)


def restore_tasks(state: ClusterState, was: ClusterSnapshot) -> None:
    """Restore the tasks with their status and node, and notify the usage observer."""
    for task in was.tasks:
        state.upsert_task(
            task.spec,
            task.status,
            task.node,
            task.started,
            owed=task.owed,
            evicted=task.evicted,
            cards=task.cards,
        )
        job_key = task.spec.job
        if task.replaced and job_key is not None:
            state.successions.restore_replaced(state.jobs[job_key], task.spec.key)
    for job in was.jobs:
        if job.awaited:
            state.expect_again(job.key, ((one.spec, one.since) for one in job.awaited))
        state.jobs[job.key].gang_was_complete = job.whole  # which cannot be derived while it held nothing
