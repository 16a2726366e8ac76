"""Demand: what a job asks for, as far as it can ever run (fairness.md 3).

What it holds counts always. What waits counts if the queue takes work, the task would fit some empty node, and the
job, if it has not started, could start at all: its gang would fit the empty cluster and what its queue may hold. What
can never run is nobody's entitlement; others have it by right instead of on loan.
"""

from __future__ import annotations

from collections.abc import Collection

from pumice.fairness.tree import Demand, JobNode
from pumice.model.accounts import Job
from pumice.model.objects import Items, JobPhase
from pumice.model.resources import PODS
from pumice.model.shape import Shape
from pumice.scheduling.nodes import NodeTable
from pumice.scheduling.too_large import too_large
from pumice.scheduling.units import (
    first_tasks,
    gang_size,
    gang_tasks,
    missing_to_start,
    parts_of,
    sum_asks,
    total_of,
)


def demand_of(
    leaf: JobNode, nodes: NodeTable, capacity: list[int], *, open_queue: bool, start: int
) -> tuple[Demand, int]:
    """A job's demand now (the same object as before if it is equal), and how many tasks of it make its gang."""
    job = leaf.job
    assert job.spec is not None
    barred = barred_shapes(job, nodes)
    waiting_counts = open_queue and can_ever_start(job, start, barred, nodes) and too_large(leaf, start) is None
    counts: dict[Items, int] = {}
    for shape, unfinished in job.unfinished.items():
        waiting = len(job.pending.get(shape, ()))
        number = unfinished if waiting_counts and shape not in barred else unfinished - waiting
        if number and shape.ask:
            counts[shape.ask] = counts.get(shape.ask, 0) + number
    for shape, number in job.evicted.items() if waiting_counts else ():
        # Its job will want it back. If it did not count until it is made anew, its part would fall for as long as it
        # takes to be gone, the taker's would rise, and more would be taken than can stay taken.
        if shape.ask:
            counts[shape.ask] = counts.get(shape.ask, 0) + number
    floor: Items = ()
    if waiting_counts and job.spec.min_resources and not _is_over(job):
        asked = [(j, n) for j, n in enumerate(job.spec.min_resources) if n and j != PODS]
        if job.running or all(n <= capacity[j] for j, n in asked):  # else it will never start
            floor = tuple((j, n) for j, n in asked if capacity[j] > 0)
    free = sum(number for shape, number in job.unfinished.items() if not shape.ask)
    gang = max(1, min(gang_size(job, start) - free, sum(counts.values())))
    parts = _in_task_order(job, counts)
    demand = Demand(parts, floor, _must_start_with(job, parts, gang, start, barred))
    return (leaf.demand if demand == leaf.demand else demand), gang


def _is_over(job: Job) -> bool:
    """Whether all that a job had to do is done, as far as anybody can see: its minimum is nobody's demand any more."""
    busy = any(job.unfinished.values()) or any(job.evicted.values())
    return not busy and (bool(job.tasks) or job.phase is JobPhase.COMPLETED)


def barred_shapes(job: Job, nodes: NodeTable) -> frozenset[Shape]:
    """Waiting shapes that would fit no node even if it were empty."""
    barred = [shape for shape in job.pending if not nodes.possible(shape)]
    return frozenset(barred) if barred else frozenset()


def can_ever_start(job: Job, start: int, barred: Collection[Shape], nodes: NodeTable) -> bool:
    """Whether what the job must start with would fit the empty cluster. Pods that are still to come may help."""
    missing = missing_to_start(job, start)
    if missing <= 0:
        return True
    tasks = gang_tasks(job, missing, barred)
    if tasks is None:
        return not barred or gang_tasks(job, missing) is None
    return all(shape.coupled or nodes.room_for(shape, count) for shape, count in parts_of(tasks))


def _must_start_with(
    job: Job, parts: tuple[tuple[Items, int], ...], gang: int, start: int, barred: Collection[Shape]
) -> Items:
    """What the tasks of its first unit ask for together; () if it may start with any one task."""
    assert job.spec is not None
    if not parts or (gang <= 1 and not job.spec.min_task_member):
        return ()
    if len(parts) == 1:
        return tuple((j, amount * gang) for j, amount in parts[0][0])
    if sum(count for _, count in parts) <= gang:
        return total_of(parts)
    return sum_asks(parts_of(first_tasks(job, gang_size(job, start), barred)))


def _in_task_order(job: Job, counts: dict[Items, int]) -> tuple[tuple[Items, int], ...]:
    if len(counts) <= 1:
        return tuple(counts.items())
    order: dict[Items, None] = {}
    for task in sorted(job.tasks.values(), key=lambda task: task.order):
        if (task.status.unfinished or task.evicted) and task.shape.ask in counts:
            order[task.shape.ask] = None
    return tuple((ask, counts[ask]) for ask in order)
