"""Transactions: try something on the real state, then keep it or leave no trace.

No copies are made. Each step is done at once and written down; ``discard`` undoes the steps backwards, which
restores every account exactly; ``commit`` keeps them, and the outermost commit turns them into decisions. A
transaction inside another hands its steps up when it commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.fairness.order import Level
from pumice.fairness.tree import JobNode
from pumice.model.accounts import Task
from pumice.model.objects import Items
from pumice.scheduling.decisions import Bind

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


class Transaction:
    """A piece of work that happens whole or not at all."""

    __slots__ = ("_charges", "_engine", "_outer", "_placed")

    def __init__(self, engine: Engine, outer: Transaction | None = None) -> None:
        self._engine = engine
        self._outer = outer
        self._placed: list[tuple[Task, int]] = []
        self._charges: list[tuple[JobNode, Items, int, int, bool]] = []

    def place(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Put a waiting task on the node with that index; owed: its job was, when it got its turn."""
        engine = self._engine
        node = engine.nodes.nodes[index]
        engine.state.place(task, node, stamp)
        task.owed = owed
        engine.nodes.note(index)
        for plugin in engine.policy.followers:
            plugin.placed(task, node)
        self._placed.append((task, index))

    def charge(self, leaf: JobNode, ask: Items, stamp: int, tasks: int, owed: bool) -> None:
        """Count what was placed on the job's path of the share tree."""
        self._engine.order.hold(leaf, ask, stamp, tasks, owed)
        self._charges.append((leaf, ask, stamp, tasks, owed))

    def discard(self) -> None:
        """Undo everything, last first."""
        engine = self._engine
        for leaf, ask, stamp, tasks, owed in reversed(self._charges):
            engine.order.release(leaf, ask, stamp, tasks, owed)
        for task, index in reversed(self._placed):
            node = task.node
            assert node is not None
            for plugin in engine.policy.followers:
                plugin.removed(task, node)
            engine.state.unplace(task)
            task.owed = True
            engine.nodes.note(index)
        self._charges.clear()
        self._placed.clear()

    def commit(self, path: tuple[Level, ...] = ()) -> None:
        """Keep it: part of the outer transaction, or decided."""
        if self._outer is not None:
            self._outer._placed += self._placed
            self._outer._charges += self._charges
            return
        engine = self._engine
        for task, index in self._placed:
            assert task.job is not None
            engine.decisions.append(Bind(task.spec.key, engine.nodes.nodes[index].name, task.job.key, path))
        for leaf, ask, stamp, _, owed in self._charges:
            engine.stamp = max(engine.stamp, stamp)
            if owed and ask:
                engine.tree.remember_turn(leaf, stamp)
        for _, index in self._placed:
            engine.nodes.lost(index, engine.candidates.shape_full)
