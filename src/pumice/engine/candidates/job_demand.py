"""Demand: what a job asks for, as far as it can ever run (docs/fairness.md, section 3.1).

What the job holds counts. A waiting task counts if the queue accepts work, the task would fit on some empty node, and
the job, if it has not started, could start at all: its gang would fit the empty cluster and its queue's capability.
Demand that can never run earns no entitlement; other jobs are then entitled to that capacity instead of borrowing it.
For the same reason a job that runs and could not start again within the limits of its queue has no demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import groupby

from kubebase.resource_vector import PODS
from pumice.engine.candidates.oversized_jobs import could_start_anew, find_oversize
from pumice.engine.candidates.units import (
    GangCapacity,
    first_tasks,
    gang_tasks,
    missing_to_start,
    parts_of,
    sum_asks,
    total_of,
)
from pumice.engine.fairness.share_tree.demand import NO_DEMAND, Demand, Pieces, shared_demand
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items, JobPhase, TaskStatus


def demand_of(
    leaf: JobNode, nodes: NodeTable, capacity: list[int], *, open_queue: bool, start: int
) -> tuple[Demand, int]:
    """A job's demand now (the same object as before if it is equal), and how many of its tasks form its gang.

    For unlike tasks this also sets the leaf's ``path_tasks``, the order in which they count.
    """
    job = leaf.job
    assert job.spec is not None
    if not could_start_anew(leaf, start):
        leaf.path_tasks = ()
        return NO_DEMAND, 1
    barred = barred_shapes(job, nodes)
    startable = can_ever_start(job, start, barred, nodes, capacity) and find_oversize(leaf, start) is None
    waiting_counts = open_queue and startable
    counts: dict[Items, int] = {}
    for shape, number in job.placed.items():
        if shape.ask:
            counts[shape.ask] = counts.get(shape.ask, 0) + number
    for shape, waiting in job.pending.items() if waiting_counts else ():
        if shape.ask and shape not in barred:
            counts[shape.ask] = counts.get(shape.ask, 0) + len(waiting)
    again = 0
    for shape, number in job.unreplaced.items() if waiting_counts else ():
        # The job controller will recreate an evicted task. If it did not count until then, the victim's target would
        # fall meanwhile, the preemptor's would rise, and preemption would take more than the targets justify
        # afterwards.
        if shape.ask:
            counts[shape.ask] = counts.get(shape.ask, 0) + number
            again += number
    floor: Items = ()
    if waiting_counts and job.spec.min_resources and not _is_over(job):
        asked = [(j, n) for j, n in enumerate(job.spec.min_resources) if n and j != PODS]
        if job.running or all(n <= capacity[j] for j, n in asked):  # otherwise it will never start
            floor = tuple((j, n) for j, n in asked if capacity[j] > 0)
    free = 0
    for shape, number in job.placed.items():
        free += number if not shape.ask else 0
    for shape, waiting in job.pending.items():
        free += len(waiting) if not shape.ask else 0
    size = min(start - job.succeeded, job.unfinished_tasks + again)
    gang = max(1, min(size - free, sum(counts.values())))
    parts = tuple(counts.items())
    if len(counts) > 1 or (start > 0 and job.spec.min_task_member):
        waiting_shapes = job.pending.keys() - barred if waiting_counts else frozenset()
        counting = _counting_tasks(job, waiting_shapes, evicted=waiting_counts)
        first: list[Task] = []
        if start > 0 and (job.spec.min_task_member or gang > 1):
            first = _first_tasks(job, size, counting, nodes, capacity)
            gang = max(1, sum(1 for task in first if task.shape.ask))
        path = _task_path(counting, first)
        parts = _pieces(path)
        leaf.path_tasks = tuple(path) if len(parts) > 1 else ()
    else:
        leaf.path_tasks = ()
    demand = shared_demand(parts, floor, total_of(_leading(parts, gang)) if gang > 1 else ())
    return (leaf.demand if demand == leaf.demand else demand), gang


def _is_over(job: Job) -> bool:
    """Whether a job appears to have finished all its work: its minResources are no demand any more."""
    busy = job.unfinished_tasks or job.unreplaced
    return not busy and (bool(job.task_count) or job.phase is JobPhase.COMPLETED)


def asks_beyond(job: Job, capacity: list[int]) -> bool:
    """Whether a job, or its minResources, asks for more than this: only then does capacity affect its demand."""
    if job.spec is not None and any(n > capacity[j] for j, n in enumerate(job.spec.min_resources) if j != PODS):
        return True
    asked = total_of(tuple((shape.ask, number) for shape, number in job.unfinished.items()))
    return any(amount > capacity[j] for j, amount in asked)


def barred_shapes(job: Job, nodes: NodeTable) -> frozenset[TaskShape]:
    """Waiting shapes that would fit on no node even if it were empty."""
    barred = [shape for shape in job.pending if not nodes.possible(shape)]
    return frozenset(barred) if barred else frozenset()


def volume_wait(shapes: Iterable[TaskShape]) -> str:
    """Which volume the first of these shapes waits for; empty: they wait for none."""
    demands = (shape.constraints.volumes for shape in sorted(shapes, key=lambda shape: shape.index))
    return next((demand.waits_for for demand in demands if demand is not None and demand.waits_for), "")


def can_ever_start(job: Job, start: int, barred: Collection[TaskShape], nodes: NodeTable, capacity: list[int]) -> bool:
    """Whether the tasks a job must start with would fit the empty cluster. Pods still to be created may help."""
    missing = missing_to_start(job, start)
    if missing <= 0:
        return True
    if len(job.pending) == 1 and not barred and job.spec is not None and not job.spec.min_task_member:
        shape, waiting = next(iter(job.pending.items()))  # most jobs: all tasks alike
        if len(waiting) < missing:
            return True
        fits = all(amount * missing <= capacity[j] for j, amount in shape.ask)
        return fits and (shape.coupled or nodes.free_slots(shape, missing))
    tasks = gang_tasks(job, missing, barred)
    if tasks is None:
        return not barred or gang_tasks(job, missing) is None
    parts = parts_of(tasks)
    total = sum_asks(parts)
    if all(amount <= capacity[j] for j, amount in total) and all(
        shape.coupled or nodes.free_slots(shape, count) for shape, count in parts
    ):
        return True
    return gang_tasks(job, missing, barred, GangCapacity(slots_on_empty_nodes(job, nodes), capacity)) is not None


def slots_on_empty_nodes(job: Job, nodes: NodeTable) -> dict[TaskShape, int]:
    """How many of a job's waiting tasks of each shape would fit at most if all nodes were empty."""
    return {shape: nodes.slots_for(shape, len(tasks)) for shape, tasks in job.pending.items() if not shape.coupled}


def _counting_tasks(job: Job, waiting_shapes: Collection[TaskShape], *, evicted: bool) -> list[Task]:
    """The tasks that count in a job's demand, in task order: those that hold a node, and the selected others."""
    counting = [
        task
        for task in job.each_task()
        if task.status.held or (task.status is TaskStatus.PENDING and task.shape in waiting_shapes)
    ]
    counting += job.unreplaced_tasks() if evicted else []
    return sorted(counting, key=lambda task: task.order)


def _first_tasks(job: Job, size: int, counting: list[Task], nodes: NodeTable, capacity: list[int]) -> list[Task]:
    """The tasks a job must start with, avoiding any that the empty cluster could not hold beside the others.

    Those that were evicted are among them: their successors will be.
    """
    size = min(size, len(counting))
    there = Counter(task.shape for task in counting if task.status is not TaskStatus.PENDING)
    slots = slots_on_empty_nodes(job, nodes)
    room = GangCapacity({shape: count + there[shape] for shape, count in slots.items()}, capacity)
    found = first_tasks(job, size, counting, room)
    if found is None:
        found = first_tasks(job, size, counting)
    return found or []


def _task_path(counting: list[Task], first: list[Task]) -> list[Task]:
    """The tasks with resource requests, those that the job must start with before the others."""
    chosen = set(first)
    return sorted((task for task in counting if task.shape.ask), key=lambda task: task not in chosen)


def _pieces(path: list[Task]) -> Pieces:
    """The requests along a path of tasks, equal neighbours merged into one piece."""
    return tuple((ask, len(list(alike))) for ask, alike in groupby(task.shape.ask for task in path))


def _leading(parts: Pieces, tasks: int) -> Pieces:
    """The first ``tasks`` tasks of a path."""
    leading: list[tuple[Items, int]] = []
    for ask, count in parts:
        if tasks <= 0:
            break
        leading.append((ask, min(count, tasks)))
        tasks -= count
    return tuple(leading)
