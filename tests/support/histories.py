"""Random histories of a small cluster as hypothesis strategies, and pictures of a state to compare.

Every event names one of a few objects, whatever came before: duplicates, updates, unknown references and deletions of
what was never there come by themselves. Amounts are small, so that things are often full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from pumice.model.accounts import Task
from pumice.model.events import BindFailed, Changed, Described, Event, Gone
from pumice.model.objects import (
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
from pumice.model.resources import Registry
from pumice.model.state import ClusterState

GPU = 3
NODES = ("n0", "n1", "n2")
QUEUES = ("qa", "qb", "qc", "qd")
PATHS = {"qa": "root/a/qa", "qb": "root/a/qb", "qc": "root/c", "qd": None}
NAMESPACES = ("one", "two")
JOBS = tuple(f"j{i}" for i in range(5))
CLASSES = ("low", "high")
STAMPS = st.integers(0, 9)


def registry() -> Registry:
    """cpu, memory, pods and gpu."""
    known = Registry()
    known.index("gpu")
    return known


def namespace_of(job: str) -> str:
    """Jobs have a home, so that a name means one job."""
    return NAMESPACES[JOBS.index(job) % 2]


requests = st.sampled_from(
    [(1, 0, 1), (1, 0, 1), (2, 1, 1), (0, 2, 1), (1, 1, 1, 1), (0, 0, 1, 1), (0, 0, 1), (4, 0, 1)]
)


@st.composite
def task_specs(draw: st.DrawFn, managed: bool = True) -> TaskSpec:
    """A pod of one of the jobs (or of nobody), anywhere in its life."""
    job = draw(st.sampled_from(JOBS))
    status = draw(
        st.sampled_from(
            [TaskStatus.PENDING] * 4
            + [TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RUNNING, TaskStatus.RELEASING]
            + [TaskStatus.SUCCEEDED, TaskStatus.FAILED]
        )
    )
    on_node = status.on_node or (status > TaskStatus.RELEASING and draw(st.booleans()))
    number = draw(st.integers(0, 3))
    name = f"{job}-w-{number}" if managed else f"foreign{number}"
    return TaskSpec(
        namespace_of(job) if managed else "kube-system",
        name,
        draw(requests),
        job=f"{namespace_of(job)}/{job}" if managed else None,
        created=draw(STAMPS),
        role=("ps", "worker")[number % 2],
        priority=draw(st.sampled_from([None, None, 5])),
        priority_class=draw(st.sampled_from([None, *CLASSES])),
        node=draw(st.sampled_from(NODES)) if on_node else None,
        status=status,
        started=draw(STAMPS) if on_node else 0,
        managed=managed,
    )


@st.composite
def job_specs(draw: st.DrawFn) -> JobSpec:
    """One of the jobs, in some queue, with some minimum."""
    name = draw(st.sampled_from(JOBS))
    return JobSpec(
        namespace_of(name),
        name,
        draw(st.sampled_from(QUEUES)),
        created=JOBS.index(name),
        min_member=draw(st.sampled_from([1, 1, 1, 2, 3])),
        min_task_member=draw(st.sampled_from([{}, {}, {}, {"ps": 1}, {"ps": 1, "worker": 2}])),
        min_resources=draw(st.sampled_from([(), (), (3,), (1, 2)])),
        priority_class=draw(st.sampled_from([None, None, *CLASSES])),
        phase=draw(st.sampled_from([JobPhase.INQUEUE, JobPhase.PENDING])),
    )


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """One of the queues; where it stands never changes, how it weighs does."""
    name = draw(st.sampled_from(QUEUES))
    path = PATHS[name]
    weight = draw(st.integers(1, 3))
    weights = "/".join(["1"] * path.count("/") + [str(weight)]) if path else None
    state = draw(st.sampled_from([QueueState.OPEN] * 5 + [QueueState.CLOSED]))
    return Queue(name, QUEUES.index(name), weight, path=path, path_weights=weights, state=state)


node_specs = st.builds(
    NodeSpec,
    st.sampled_from(NODES),
    st.sampled_from([(4, 4, 9, 1), (6, 3, 9), (8, 8, 3, 2)]),
    unschedulable=st.sampled_from([False, False, False, True]),
    ready=st.sampled_from([True, True, True, False]),
)
quotas = st.builds(Quota, st.sampled_from(NAMESPACES), st.sampled_from(["x", "y"]), st.sampled_from([None, 0, 1, 2, 3]))
classes = st.builds(PriorityClass, st.sampled_from(CLASSES), st.sampled_from([0, 1, 100]), st.booleans())

described: st.SearchStrategy[Described] = st.one_of(
    task_specs(), task_specs(), task_specs(), task_specs(managed=False), job_specs(), queues(), node_specs, quotas
) | st.one_of(classes, node_specs, job_specs(), queues())


def events(*, gone: bool = True) -> st.SearchStrategy[Event]:
    """One thing that happens."""
    changed = st.builds(Changed, described)
    if not gone:
        return changed
    return st.one_of(
        changed,
        changed,
        changed,
        changed,
        described.map(lambda o: Gone(type(o), key_of(o))),
        task_specs().map(lambda spec: BindFailed(spec.key)),
    )


@st.composite
def openings(draw: st.DrawFn) -> list[Event]:
    """A cluster to begin with: nodes, queues, and jobs with more waiting tasks than there is room for."""
    found: list[Described] = []
    for name in NODES:
        found.append(replace(draw(node_specs), name=name, ready=True))
    for name in QUEUES:
        path = PATHS[name]
        weight = draw(st.integers(1, 3))
        weights = "/".join(["1"] * path.count("/") + [str(weight)]) if path else None
        found.append(Queue(name, QUEUES.index(name), weight, path=path, path_weights=weights))
    for name in JOBS:
        found.append(replace(draw(job_specs()), name=name, namespace=namespace_of(name), created=JOBS.index(name)))
        usual = draw(requests)
        for number in range(4):
            spec = draw(task_specs())
            request = usual if draw(st.integers(0, 3)) else spec.request
            found.append(
                TaskSpec(
                    namespace_of(name),
                    f"{name}-w-{number}",
                    request,
                    job=f"{namespace_of(name)}/{name}",
                    created=spec.created,
                    role=("ps", "worker")[number % 2],
                    priority=spec.priority,
                )
            )
    return [Changed(described_object) for described_object in found]


def histories(steps: int = 4) -> st.SearchStrategy[list[list[Event]]]:
    """What happens before each of some cycles."""
    later = st.lists(st.lists(events(), min_size=2, max_size=12), min_size=1, max_size=steps)
    return st.builds(lambda first, rest: [first, *rest], openings(), later)


def key_of(described: Described) -> str:
    """The key under which an object is deleted."""
    return described.name if isinstance(described, NodeSpec | Queue | PriorityClass) else described.key


def final_objects(state: ClusterState) -> list[Described]:
    """What a state was told and still believes, as a shell that starts now would read it: kind by kind, by name."""
    found: list[Described] = [*state.priority_classes.values(), *state.queues.values()]
    found += [quota for quotas_here in state.quotas.values() for quota in quotas_here.values()]
    found += [node.spec for node in state.nodes.values() if node.spec is not None]
    found += [replace(job.spec, phase=job.phase) for job in state.jobs.values() if job.spec is not None]
    found += [as_seen(task) for task in state.tasks.values()]
    return sorted(found, key=lambda o: (type(o).__name__, key_of(o)))


def as_seen(task: Task) -> TaskSpec:
    """A task as its pod looks once all that was decided is carried out."""
    status = TaskStatus.BOUND if task.status is TaskStatus.BINDING else task.status
    node = task.node.name if task.node is not None and status.on_node else task.spec.node
    return replace(task.spec, status=status, node=node, started=task.started)


def build_state(objects: Iterable[Described], known: Registry) -> ClusterState:
    """A state that is told everything once, in that order."""
    state = ClusterState(known)
    for described_object in objects:
        state.apply(Changed(described_object))
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
