"""Freeable: how much room there would be on each node, at most, if everybody went who might.

A taker that would find no room even then need not be looked at any further, and for the others most nodes are ruled
out by one comparison of arrays. It is an upper bound: that one victim rules out another is found out later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.fairness.tree import JobNode
from pumice.model.objects import TaskStatus
from pumice.model.shape import Shape

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


class Freeable:
    """Room on every node if all tasks of these jobs that run there were gone."""

    def __init__(self, engine: Engine, leaves: Iterable[JobNode]) -> None:
        self._nodes = engine.nodes
        self._jobs = {leaf.job: None for leaf in leaves}
        self._nodes.sync_idle()
        self._room: NDArray[np.int64] = self._nodes.idle.copy()
        index = self._nodes.index
        for job in self._jobs:
            for task in job.tasks.values():
                if task.node is not None and TaskStatus.BOUND <= task.status <= TaskStatus.RUNNING:
                    i = index.get(task.node.name, -1)
                    if i >= 0:
                        for j, amount in task.shape.items:
                            self._room[j, i] += amount
        for i, node in enumerate(self._nodes.nodes):
            if node.waiting or any(node.releasing):
                self.refresh(i)

    def refresh(self, i: int) -> None:
        """Something moved on a node."""
        node = self._nodes.nodes[i]
        room = [node.future(j) for j in range(len(self._room))]
        for task in node.tasks.values():
            if task.job in self._jobs and TaskStatus.BOUND <= task.status <= TaskStatus.RUNNING:
                for j, amount in task.shape.items:
                    room[j] += amount
        self._room[:, i] = room

    def nodes_for(self, shape: Shape) -> NDArray[np.bool_]:
        """Where a task of the shape might fit."""
        might = self._nodes.view(shape).mask.copy()
        for j, amount in shape.items:
            might &= self._room[j] >= amount
        return might

    def slots_for(self, shape: Shape, i: int) -> int:
        """How many tasks of the shape might fit on a node."""
        return int(min((self._room[j, i] // amount for j, amount in shape.items), default=0))
