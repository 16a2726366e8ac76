"""A cluster as it stands, in plain values: enough to build the same state again.

What objects say is not all: a task may have been placed or let go by a decision that no object shows yet, and a job may
have been let in. So each task comes with where it stands, and each job with its phase.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engine.events import Changed
from pumice.engine.state.cluster_state import ClusterState
from pumice.model.specs import Described, JobPhase, JobSpec, PodTerm, TaskSpec, TaskStatus


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job: what was said of it (nothing, where only its pods are known), and how far it is."""

    key: str
    spec: JobSpec | None
    phase: JobPhase
    whole: bool = False  # whether all of its minimum was shown at some time since it last held nothing


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task: what was said of it, and where it is by decision."""

    spec: TaskSpec
    status: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    started: int = 0
    owed: bool = True
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that a state knows, in an order in which it can be told. Nothing else need be known to go on from here."""

    objects: tuple[Described, ...] = ()  # all but jobs and tasks
    jobs: tuple[JobSnapshot, ...] = ()
    tasks: tuple[TaskSnapshot, ...] = ()
    terms: tuple[PodTerm, ...] = ()  # what tasks, some of them gone, have said of other pods (see ``shape``)
    label_keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.objects) + len(self.jobs) + len(self.tasks)


def snapshot_cluster(state: ClusterState) -> ClusterSnapshot:
    """How a cluster stands; tasks in the order in which they started."""
    quotas = (quota for found in state.quotas.values() for quota in found.values())
    nodes = (node.spec for node in state.nodes.values() if node.spec is not None)
    tasks = sorted(state.tasks.values(), key=lambda task: (task.started, task.order))
    return ClusterSnapshot(
        (*state.priority_classes.values(), *state.budgets.values(), *quotas, *state.queues.values(), *nodes),
        tuple(JobSnapshot(job.key, job.spec, job.phase, job.gang_was_complete) for job in state.jobs.values()),
        tuple(
            TaskSnapshot(
                task.spec,
                task.status,
                task.node.name if task.node is not None and task.status.has_node else None,
                task.started,
                task.owed,
                task.evicted,
            )
            for task in tasks
        ),
        *state.shapes.lessons,
    )


def restore_objects(state: ClusterState, was: ClusterSnapshot) -> None:
    """Tell an empty state what there is, tasks excepted."""
    state.shapes.recall(was.terms, was.label_keys)
    for described in was.objects:
        state.apply(Changed(described))
    for job in was.jobs:
        state.restore_job(job.key, job.spec, job.phase, whole=job.whole)


def restore_tasks(state: ClusterState, was: ClusterSnapshot) -> None:
    """And now the tasks, each where it stood. Whoever watches hears of them."""
    for task in was.tasks:
        state.upsert_task(task.spec, task.status, task.node, task.started, owed=task.owed, evicted=task.evicted)
    for job in was.jobs:
        state.jobs[job.key].gang_was_complete = job.whole  # which nobody could tell while it held nothing
