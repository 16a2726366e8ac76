"""Demand: what a job asks for, as far as it can ever run (fairness.md 3).

What it holds counts always. What waits counts if the queue takes work, the task would fit some empty node, and the
job, if it has not started, could start at all: its gang would fit the empty cluster. What can never run is nobody's
entitlement; others have it by right instead of on loan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pumice.fairness.demand import Demand, Pieces
from pumice.fairness.tree import JobNode
from pumice.model.accounts import Job, Task
from pumice.model.objects import Items, JobPhase
from pumice.model.resources import PODS
from pumice.model.shape import Shape
from pumice.scheduling.nodes import NodeTable
from pumice.scheduling.units import (
    GangRoom,
    first_tasks,
    gang_size,
    gang_tasks,
    missing_to_start,
    parts_of,
    total_of,
)


def demand_of(
    leaf: JobNode, nodes: NodeTable, capacity: list[int], *, open_queue: bool, start: int
) -> tuple[Demand, int]:
    """A job's demand now (the same object as before if it is equal), and how many tasks of it make its gang."""
    job = leaf.job
    assert job.spec is not None
    barred = barred_shapes(job, nodes)
    waiting_counts = open_queue and can_ever_start(job, start, barred, nodes)
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
    first: list[Task] = []
    if start > 0 and (job.spec.min_task_member or (gang > 1 and len(counts) > 1)):
        first = _first_tasks(job, start, barred, nodes, capacity)
        gang = max(1, sum(1 for task in first if task.shape.ask))
    parts = tuple(counts.items()) if len(counts) <= 1 else _task_path(job, counts, first)
    demand = Demand(parts, floor, total_of(_leading(parts, gang)) if gang > 1 else ())
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
    if all(shape.coupled or nodes.room_for(shape, count) for shape, count in parts_of(tasks)):
        return True
    return gang_tasks(job, missing, barred, GangRoom(slots_on_empty_nodes(job, nodes))) is not None


def slots_on_empty_nodes(job: Job, nodes: NodeTable) -> dict[Shape, int]:
    """How many of a job's waiting tasks of each shape would fit at most, were all nodes empty."""
    return {shape: nodes.slots_for(shape, len(tasks)) for shape, tasks in job.pending.items() if not shape.coupled}


def _first_tasks(job: Job, start: int, barred: Collection[Shape], nodes: NodeTable, capacity: list[int]) -> list[Task]:
    """The tasks a job must start with, none of them one for which the empty cluster has no room beside the others."""
    size = gang_size(job, start)
    held = Counter(task.shape for task in job.tasks.values() if task.status.held)
    slots = slots_on_empty_nodes(job, nodes)
    room = GangRoom({shape: count + held[shape] for shape, count in slots.items()}, capacity)
    found = first_tasks(job, size, barred, room)
    if found is None:
        found = first_tasks(job, size, barred)
    return found or []


def _task_path(job: Job, counts: dict[Items, int], first: list[Task]) -> Pieces:
    """The tasks that count, in task order, those it must start with first; equal neighbours are one piece."""
    left = dict(counts)
    chosen = set(first)
    ordered = sorted(job.tasks.values(), key=lambda task: (task not in chosen, task.order))
    pieces: list[tuple[Items, int]] = []
    for task in ordered:
        ask = task.shape.ask
        if not (task.status.unfinished or task.evicted) or left.get(ask, 0) == 0:
            continue
        left[ask] -= 1
        if pieces and pieces[-1][0] == ask:
            pieces[-1] = (ask, pieces[-1][1] + 1)
        else:
            pieces.append((ask, 1))
    return tuple(pieces)


def _leading(parts: Pieces, tasks: int) -> Pieces:
    """The first so many tasks of a path."""
    leading: list[tuple[Items, int]] = []
    for ask, count in parts:
        if tasks <= 0:
            break
        leading.append((ask, min(count, tasks)))
        tasks -= count
    return tuple(leading)
