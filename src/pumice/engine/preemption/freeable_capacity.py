"""Freeable capacity: an upper bound on what each node could offer if every preemptible task on it were evicted.

A preemptor that fits nowhere even under this bound needs no victim search, and for the others one comparison of arrays
rules out most nodes. The bound ignores that evicting one victim may make another illegal; the search finds that out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks, is_running
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


INFEASIBLE = 2**31


class FreeableCapacity:
    """Capacity of every node if all preemptible tasks of the given jobs were evicted."""

    def __init__(
        self,
        context: SchedulingContext,
        pool: PreemptibleTasks,
        leaves: Iterable[JobNode],
        among: Container[Task] | None = None,
    ) -> None:
        self._context = context
        self._nodes = context.nodes
        self._pool = pool
        self._among = among  # count only these tasks of the pool; None: all
        self.leaves = {leaf.job: leaf for leaf in leaves}
        self._nodes.sync_idle()
        self._future: NDArray[np.int64] = self._nodes.idle.copy()
        self._freed = np.zeros_like(self._future)
        self._largest = np.zeros_like(self._future)  # the most that one of these tasks holds, per resource and node
        self._refreshed: list[int] = []  # nodes that were recomputed, in order
        self._fewest: dict[TaskShape, tuple[NDArray[np.int64], int]] = {}  # and how many of these are taken in
        self._add_tasks()
        for i in self._nodes.freeing:
            self.refresh(i)

    def _add_tasks(self) -> None:
        """Add up what the tasks hold on each node, in one pass for all tasks of a shape."""
        index = self._nodes.index
        places: dict[TaskShape, list[int]] = {}
        for leaf in self.leaves.values():
            for task in self._pool.tasks.get(leaf, ()):
                if task.node is not None and self._counts(task):
                    i = index.get(task.node.name, -1)
                    if i >= 0:
                        places.setdefault(task.shape, []).append(i)
        for shape, found in places.items():
            tasks = np.bincount(found, minlength=len(self._nodes.nodes))
            here = tasks > 0
            for j, amount in shape.items:
                self._freed[j] += tasks * amount
                self._largest[j][here] = np.maximum(self._largest[j][here], amount)

    def _counts(self, task: Task) -> bool:
        return task in self._pool and is_running(self._context, task) and (self._among is None or task in self._among)

    def refresh(self, i: int) -> None:
        """Recompute one node after a task on it changed."""
        node = self._nodes.nodes[i]
        width = len(self._future)
        freed, largest = [0] * width, [0] * width
        for task in node.tasks.values():
            if task.job in self.leaves and self._counts(task):
                for j, amount in task.shape.items:
                    freed[j] += amount
                    if amount > largest[j]:
                        largest[j] = amount
        self._future[:, i] = [node.future(j) for j in range(width)]
        self._freed[:, i], self._largest[:, i] = freed, largest
        self._refreshed.append(i)

    def with_room(self, shape: TaskShape, indices: Iterable[int]) -> list[int]:
        """Those of these nodes that have room for a task once all tasks that are leaving have left."""
        nodes = np.fromiter(indices, np.intp)
        for j, amount in shape.items:
            nodes = nodes[self._future[j, nodes] >= amount]
        found: list[int] = nodes.tolist()
        return found

    def victims_for(self, shape: TaskShape) -> NDArray[np.int64]:
        """The least number of evictions per node that admits one task of this shape; INFEASIBLE where none suffices.

        Not to be changed: the next call returns the same array, with refreshed nodes counted again.
        """
        if self._nodes.within is not None:  # one domain of the network is tried
            return self._count_victims(shape)
        known = self._fewest.get(shape)
        fewest, seen = (self._count_victims(shape), len(self._refreshed)) if known is None else known
        for i in self._refreshed[seen:]:
            fewest[i] = self._count_victims_on(shape, i)
        self._fewest[shape] = fewest, len(self._refreshed)
        return fewest

    def _count_victims_on(self, shape: TaskShape, i: int) -> int:
        """The same for one node."""
        if not self._nodes.eligible(shape)[i]:
            return INFEASIBLE
        fewest = 1
        for j, amount in shape.items:
            lack = amount - int(self._future[j, i])
            if lack > self._freed[j, i]:
                return INFEASIBLE
            fewest = max(fewest, -(-lack // max(int(self._largest[j, i]), 1)))
        return fewest

    def _count_victims(self, shape: TaskShape) -> NDArray[np.int64]:
        fewest = np.ones(len(self._nodes.nodes), np.int64)
        hopeless = ~self._nodes.eligible(shape)
        for j, amount in shape.items:
            lack = amount - self._future[j]
            hopeless |= lack > self._freed[j]
            fewest = np.maximum(fewest, -(-lack // np.maximum(self._largest[j], 1)))
        fewest[hopeless] = INFEASIBLE
        return fewest

    def slots(self, shape: TaskShape) -> NDArray[np.int64]:
        """Per node, how many tasks of the shape might fit."""
        found = np.full(len(self._nodes.nodes), INFEASIBLE, np.int64)
        for j, amount in shape.items:
            found = np.minimum(found, (self._future[j] + self._freed[j]) // amount)
        return np.where(self._nodes.view(shape).mask, np.maximum(found, 0), 0)

    def slots_for(self, shape: TaskShape, i: int) -> int:
        """How many tasks of the shape might fit on a node."""
        room = self._future[:, i] + self._freed[:, i]
        return int(min((room[j] // amount for j, amount in shape.items), default=0))
