"""Transactions: try something on the real state, then keep it or leave no trace.

No copies are made. Each step is done at once and written down; ``discard`` undoes the steps backwards, which
restores every account exactly; ``commit`` keeps them, and the outermost commit turns them into decisions. A
transaction inside another hands its steps up when it commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pumice.fairness.order import Level
from pumice.fairness.tree import JobNode
from pumice.model.accounts import Task
from pumice.model.objects import Items, TaskStatus
from pumice.scheduling.decisions import Bind, Evict, Pipeline

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine

Explain = Callable[[Task], Evict]
"""What is said about an eviction."""


class Transaction:
    """A piece of work that happens whole or not at all."""

    __slots__ = ("_charges", "_engine", "_outer", "_placed", "evicted")

    def __init__(self, engine: Engine, outer: Transaction | None = None) -> None:
        self._engine = engine
        self._outer = outer
        self._placed: list[tuple[Task, int]] = []
        self._charges: list[tuple[JobNode, Items, int, int, bool]] = []
        self.evicted: list[tuple[Task, TaskStatus]] = []  # victims, and what they were

    # --- steps --------------------------------------------------------------------------------------------------

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

    def pipeline(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Let a waiting task wait on the node with that index, for room that is free or being freed there."""
        engine = self._engine
        node = engine.nodes.nodes[index]
        engine.state.pipeline(task, node, stamp)
        task.owed = owed
        engine.nodes.note(index)
        for plugin in engine.policy.followers:
            plugin.placed(task, node)
        self._placed.append((task, index))

    def move(self, task: Task, index: int) -> None:
        """Let a task that was given a claim by this transaction wait on another node instead."""
        engine, node = self._engine, task.node
        at = next(i for i, (placed, _) in enumerate(self._placed) if placed is task)
        stamp, owed = task.started, task.owed
        assert node is not None
        for plugin in engine.policy.followers:
            plugin.removed(task, node)
        engine.state.unplace(task)
        engine.nodes.touch(node)
        self._placed.pop(at)
        self.pipeline(task, index, stamp, owed)

    def evict(self, task: Task) -> None:
        """Let a task go. Until this is decided it counts as gone: whoever takes its place must fit without it."""
        engine, node = self._engine, task.node
        assert node is not None and task.job is not None
        for plugin in engine.policy.followers:
            plugin.removed(task, node)
        self.evicted.append((task, task.status))
        engine.state.evict(task)
        engine.order.release(engine.tree.jobs[task.job.key], task.shape.ask, task.started, 1, task.owed)
        engine.nodes.touch(node)

    def spare(self, task: Task) -> None:
        """Undo an eviction: the task stays after all."""
        engine, node = self._engine, task.node
        assert node is not None and task.job is not None
        at = next(i for i in reversed(range(len(self.evicted))) if self.evicted[i][0] is task)
        _, status = self.evicted.pop(at)
        engine.order.hold(engine.tree.jobs[task.job.key], task.shape.ask, task.started, 1, task.owed)
        engine.state.unevict(task, status)
        engine.nodes.touch(node)
        for plugin in engine.policy.followers:
            plugin.placed(task, node)

    def charge(self, leaf: JobNode, ask: Items, stamp: int, tasks: int, owed: bool) -> None:
        """Count what was placed on the job's path of the share tree."""
        self._engine.order.hold(leaf, ask, stamp, tasks, owed)
        self._charges.append((leaf, ask, stamp, tasks, owed))

    def uncharged(self, ask: Callable[[], bool]) -> bool:
        """The answer to a question about the accounts without what this transaction charged."""
        order = self._engine.order
        for leaf, items, stamp, tasks, owed in reversed(self._charges):
            order.release(leaf, items, stamp, tasks, owed)
        answer = ask()
        for leaf, items, stamp, tasks, owed in self._charges:
            order.hold(leaf, items, stamp, tasks, owed)
        return answer

    def touched(self) -> set[int]:
        """The nodes on which somebody was placed or let go."""
        index = self._engine.nodes.index
        left = {index[task.node.name] for task, _ in self.evicted if task.node is not None}
        return left | {i for _, i in self._placed}

    # --- the end ------------------------------------------------------------------------------------------------

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
        while self.evicted:
            self.spare(self.evicted[-1][0])
        self._charges.clear()
        self._placed.clear()

    def commit(self, path: tuple[Level, ...] = (), explain: Explain | None = None) -> None:
        """Keep it: part of the outer transaction, or decided."""
        if self._outer is not None:
            self._outer._placed += self._placed
            self._outer._charges += self._charges
            self._outer.evicted += self.evicted
            return
        engine = self._engine
        for task, _ in self.evicted:
            assert explain is not None and task.node is not None
            for plugin in engine.policy.followers:
                plugin.placed(task, task.node)  # on its way out, it still occupies its node
            engine.decisions.append(explain(task))
        for task, index in self._placed:
            assert task.job is not None
            name = engine.nodes.nodes[index].name
            if task.status is TaskStatus.PIPELINED:
                engine.pipelined[task] = None
                engine.decisions.append(Pipeline(task.spec.key, name, task.job.key, path))
            else:
                engine.decisions.append(Bind(task.spec.key, name, task.job.key, path))
        for leaf, ask, stamp, _, owed in self._charges:
            engine.stamp = max(engine.stamp, stamp)
            if owed and ask:
                engine.tree.remember_turn(leaf, stamp)
        for _, index in self._placed:
            engine.nodes.lost(index, engine.candidates.shape_full)
