"""Random histories of a small cluster, and pictures of a state to compare.

Every event names one of a few objects, whatever came before: duplicates, updates, unknown references and deletions of
what was never there come by themselves. Amounts are small, so that nodes are often full. A history follows from its
seed: hypothesis varies the seed, and a failure names the one to look at.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.engine.events import BindFailed, Changed, Event, Gone
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task import Task
from pumice.model.specs import (
    Described,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Queue,
    QueueState,
    Quota,
    TaskSpec,
    TaskStatus,
)

NODES = ("n0", "n1", "n2")
QUEUES = {"qa": "root/a/qa", "qb": "root/a/qb", "qc": "root/c", "qd": None}  # and their paths
ELSEWHERE = ("root/a", "root/c", "root/c/x", "root/b/qb", "root/qd", "root/a/qa/deep")
NAMESPACES = ("one", "two")
JOBS = tuple(f"j{i}" for i in range(6))
CLASSES = ("low", "high")
TASKS_A_JOB = 5
REQUESTS = [(1, 0, 1)] * 4 + [(2, 1, 1), (0, 2, 1), (1, 1, 1, 1), (0, 0, 1, 1), (0, 0, 1), (3, 0, 1)]
LIVES = [TaskStatus.PENDING] * 5 + [TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RUNNING]
LIVES += [TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED]

seeds = st.integers(0, 2**32)


def registry() -> Registry:
    """cpu, memory, pods and gpu."""
    known = Registry()
    known.index("gpu")
    return known


def namespace_of(job: str) -> str:
    """Jobs have a home, so that a name means one job."""
    return NAMESPACES[JOBS.index(job) % 2]


class History:
    """Draws what happens."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        # Most tasks of a job are alike.
        self.usual = {job: self.rng.choice(REQUESTS) for job in JOBS}

    def steps(self, most: int = 5) -> list[list[Event]]:
        """A cluster to begin with, then what happens before each of some cycles."""
        later = [self.events(self.rng.randint(1, 15)) for _ in range(self.rng.randint(1, most))]
        return [self.opening(), *later]

    def opening(self) -> list[Event]:
        """Nodes, queues, and jobs with more waiting tasks than there is room for; some of it is missing."""
        found: list[Described] = [replace(self.node(name), ready=True) for name in NODES]
        found += [replace(self.queue(name), state=QueueState.OPEN) for name in QUEUES]
        found += [self.job(name) for name in JOBS]
        for job in JOBS:
            for number in range(self.rng.randint(0, TASKS_A_JOB)):
                found.append(replace(self.task(job, number), status=TaskStatus.PENDING, node=None, started=0))
        return [Changed(described) for described in found if self.rng.random() < 0.95]

    def events(self, count: int) -> list[Event]:
        """So many things that happen."""
        return [self.event() for _ in range(count)]

    def event(self) -> Event:
        """One thing that happens."""
        described = self.described()
        luck = self.rng.random()
        if luck < 0.8:
            return Changed(described)
        if luck < 0.95 or not isinstance(described, TaskSpec):
            return Gone(type(described), key_of(described))
        return BindFailed(described.key)

    def described(self) -> Described:
        """Any of the objects, in any condition."""
        luck = self.rng.random()
        if luck < 0.6:
            return self.task(self.rng.choice(JOBS), self.rng.randrange(TASKS_A_JOB))
        if luck < 0.65:
            return self.foreign(self.rng.randrange(3))
        if luck < 0.8:
            return self.job(self.rng.choice(JOBS))
        if luck < 0.88:
            return self.queue(self.rng.choice(list(QUEUES)))
        if luck < 0.95:
            return self.node(self.rng.choice(NODES))
        if luck < 0.98:
            return Quota(self.rng.choice(NAMESPACES), self.rng.choice("xy"), self.rng.choice([None, 0, 1, 2, 3]))
        return PriorityClass(self.rng.choice(CLASSES), self.rng.choice([0, 1, 100]), self.rng.random() < 0.3)

    def task(self, job: str, number: int) -> TaskSpec:
        """A pod of a job, anywhere in its life."""
        rng = self.rng
        status = rng.choice(LIVES)
        on_node = status.on_node or (status > TaskStatus.RELEASING and rng.random() < 0.5)
        return TaskSpec(
            namespace_of(job),
            f"{job}-w-{number}",
            self.usual[job] if rng.random() < 0.7 else rng.choice(REQUESTS),
            job=f"{namespace_of(job)}/{job}",
            created=number * 7 % 4,  # as immutable as the name
            role=("ps", "worker")[number % 2],
            priority=rng.choice([None, None, None, 5]),
            priority_class=rng.choice([None, None, *CLASSES]),
            node=rng.choice(NODES) if on_node else None,
            status=status,
            started=rng.randrange(10) if on_node else 0,
            managed=rng.random() < 0.97,
        )

    def foreign(self, number: int) -> TaskSpec:
        """A pod that somebody else placed."""
        spec = self.task(self.rng.choice(JOBS), number)
        status, node = TaskStatus.RUNNING, spec.node or self.rng.choice(NODES)
        return replace(
            spec, namespace="kube-system", name=f"foreign{number}", job=None, managed=False, status=status, node=node
        )

    def job(self, name: str) -> JobSpec:
        """A job in some queue, with some minimum."""
        rng = self.rng
        return JobSpec(
            namespace_of(name),
            name,
            rng.choice(list(QUEUES)),
            created=JOBS.index(name),
            min_member=rng.choice([1, 1, 1, 2, 3]),
            min_task_member=rng.choice([{}, {}, {}, {}, {"ps": 1}, {"ps": 1, "worker": 2}]),
            min_resources=rng.choice([(), (), (3,), (1, 2)]),
            priority_class=rng.choice([None, None, *CLASSES]),
            phase=rng.choice([JobPhase.INQUEUE, JobPhase.PENDING]),
        )

    def queue(self, name: str) -> Queue:
        """A queue; how it weighs changes often, where it stands now and then: also to where it can't stand."""
        rng = self.rng
        path, parent, weight = QUEUES[name], None, rng.randint(1, 3)
        if rng.random() < 0.15:
            path, parent = rng.choice([(None, rng.choice([*QUEUES, "root"])), (rng.choice(ELSEWHERE), None)])
        weights = "/".join(["1"] * path.count("/") + [str(weight)]) if path else None
        state = rng.choice([QueueState.OPEN] * 5 + [QueueState.CLOSED])
        age = list(QUEUES).index(name)
        return Queue(name, age, weight, parent=parent, path=path, path_weights=weights, state=state)

    def node(self, name: str) -> NodeSpec:
        """A machine, mostly one that takes work."""
        return NodeSpec(
            name,
            self.rng.choice([(4, 4, 9, 1), (6, 3, 9), (8, 8, 3, 2)]),
            unschedulable=self.rng.random() < 0.2,
            ready=self.rng.random() < 0.9,
        )


def key_of(described: Described) -> str:
    """The key under which an object is deleted."""
    return described.name if isinstance(described, NodeSpec | Queue | PriorityClass) else described.key


def final_objects(state: ClusterState) -> list[Described]:
    """What a state was told and still believes, as a shell that starts now would read it: kind by kind, by name."""
    found: list[Described] = [*state.priority_classes.values(), *state.queues.values()]
    found += [quota for quotas in state.quotas.values() for quota in quotas.values()]
    found += [node.spec for node in state.nodes.values() if node.spec is not None]
    found += [replace(job.spec, phase=job.phase) for job in state.jobs.values() if job.spec is not None]
    found += [as_seen(task) for task in state.tasks.values()]
    return sorted(found, key=lambda described: (type(described).__name__, key_of(described)))


def as_seen(task: Task) -> TaskSpec:
    """A task as its pod looks once all that was decided is carried out."""
    status = TaskStatus.BOUND if task.status is TaskStatus.BINDING else task.status
    node = task.node.name if task.node is not None and status.on_node else task.spec.node
    return replace(task.spec, status=status, node=node, started=task.started)


def build_state(objects: Iterable[Described], known: Registry) -> ClusterState:
    """A state that is told everything once, in that order."""
    state = ClusterState(known)
    for described in objects:
        state.apply(Changed(described))
    return state


def picture(state: ClusterState) -> dict[str, Any]:
    """Everything a state says about the cluster, as plain values."""
    return {
        "capacity": list(state.capacity),
        "queues": state.queues,
        "weights": {name: state.namespace_weight(name) for name in NAMESPACES},
        "classes": state.priority_classes,
        "nodes": {
            node.name: (
                node.spec,
                node.schedulable,
                list(node.allocatable),
                list(node.idle),
                list(node.ours),
                list(node.foreign),
                sorted(node.tasks),
            )
            for node in state.nodes.values()
        },
        "jobs": {
            job.key: {
                "spec": job.spec and replace(job.spec, phase=job.phase),
                "priority": state.job_priority(job),
                "held": list(job.held),
                "running": job.running,
                "succeeded": job.succeeded,
                "unfinished": {shape.items: count for shape, count in job.unfinished.items()},
                "pending": {
                    shape.items: [task.key for task in sorted(waiting, key=lambda task: task.order)]
                    for shape, waiting in job.pending.items()
                },
                "tasks": sorted(job.tasks),
            }
            for job in state.jobs.values()
        },
        "tasks": {
            task.key: (
                task.status,
                task.node.name if task.node is not None and task.status.on_node else None,
                task.started,
                task.priority,
                task.order,
                task.job.key if task.job is not None else None,
            )
            for task in state.tasks.values()
        },
    }
