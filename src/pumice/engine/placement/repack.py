"""Repacking: whether these tasks fit on those nodes together, in any arrangement.

A small search: it places the largest task first, on its present node if possible, and tries only one of several nodes
that are alike. It gives up after ``STEPS``, and immediately if a task has inter-pod constraints: a negative answer may
be wrong, a positive one never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.state.task import Task

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

STEPS = 2000


def repack_tasks(context: SchedulingContext, tasks: list[Task], indices: list[int]) -> dict[Task, int] | None:
    """Assign each of these pipelined tasks to one of the given nodes (by index); None if no arrangement was found."""
    nodes = context.nodes.nodes
    if any(task.shape.coupled for task in tasks):
        return None
    allowed = {i: tuple(bool(context.nodes.view(task.shape).mask[i]) for task in tasks) for i in indices}
    room = {i: [nodes[i].future(j) for j in range(len(nodes[i].idle))] for i in indices}
    home: dict[Task, int] = {}
    for task in tasks:
        assert task.node is not None
        home[task] = context.nodes.index[task.node.name]
        for j, amount in task.shape.items:
            room[home[task]][j] += amount
    if any(left < 0 for here in room.values() for left in here):
        return None
    order = sorted(tasks, key=lambda task: (sorted((n for _, n in task.shape.items), reverse=True), task.shape.index))
    order.reverse()
    plan: dict[Task, int] = {}
    steps = [STEPS]

    def place(number: int) -> bool:
        if number == len(order):
            return True
        task = order[number]
        tried: set[tuple[object, ...]] = set()
        for i in sorted(indices, key=lambda i: i != home[task]):
            here = room[i]
            steps[0] -= 1
            if steps[0] < 0:
                return False
            if any(here[j] < amount for j, amount in task.shape.items) or not context.nodes.allows(task.shape, i):
                continue
            if (*here, *allowed[i]) in tried:
                continue
            tried.add((*here, *allowed[i]))
            for j, amount in task.shape.items:
                here[j] -= amount
            plan[task] = i
            if place(number + 1):
                return True
            for j, amount in task.shape.items:
                here[j] += amount
        return False

    return plan if place(0) else None
