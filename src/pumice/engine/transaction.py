"""Transactions: try something on the real state, then keep it or leave no trace.

No copies are made. Each step is done at once and written down; ``discard`` undoes the steps backwards, which
restores every account exactly; ``commit`` keeps them, and the outermost commit turns them into decisions. A
transaction inside another hands its steps up when it commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.engine.decisions import Evict
from pumice.engine.fairness.orders.serving_order import PickStep
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.model.specs import Items, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task that was let go, and all that it takes to have it back."""

    task: Task
    leaf: JobNode
    node: ClusterNode
    status: TaskStatus
    started: int
    owed: bool
    beneficiary: JobNode | None

    @property
    def was_bound_this_cycle(self) -> bool:
        """Whether it never had its place but in this cycle."""
        return self.status is TaskStatus.BINDING


Explain = Callable[[Eviction], Evict]
"""What is said about an eviction."""


class Transaction:
    """A piece of work that happens whole or not at all."""

    __slots__ = ("_context", "_outer", "_placed", "charges", "evictions")

    def __init__(self, context: SchedulingContext, outer: Transaction | None = None) -> None:
        self._context = context
        self._outer = outer
        self._placed: list[tuple[Task, int]] = []
        self.charges: list[tuple[JobNode, Items, int, int, bool]] = []
        self.evictions: list[Eviction] = []

    # --- steps --------------------------------------------------------------------------------------------------

    def place(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Put a waiting task on the node with that index; owed: its job was, when it got its turn."""
        self._place_with_status(task, index, stamp, owed, TaskStatus.BINDING)

    def pipeline(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Let a waiting task wait on the node with that index, for room that is free or being freed there."""
        self._place_with_status(task, index, stamp, owed, TaskStatus.PIPELINED)

    def _place_with_status(self, task: Task, index: int, stamp: int, owed: bool, status: TaskStatus) -> None:
        context = self._context
        node = context.nodes.nodes[index]
        context.state.place(task, node, stamp, status)
        task.owed = owed
        context.nodes.mark_changed(index)
        for plugin in context.policy.followers:
            plugin.placed(task, node)
        self._placed.append((task, index))

    def move(self, task: Task, index: int) -> None:
        """Let a task that was given a claim by this transaction wait on another node instead."""
        context, node = self._context, task.node
        at = next(i for i, (placed, _) in enumerate(self._placed) if placed is task)
        stamp, owed = task.started, task.owed
        assert node is not None
        for plugin in context.policy.followers:
            plugin.removed(task, node)
        context.state.unplace(task)
        context.nodes.touch(node)
        self._placed.pop(at)
        self.pipeline(task, index, stamp, owed)

    def evict(self, task: Task, heir: JobNode | None = None) -> None:
        """Let a task go; its right to what it holds passes to the heir, if there is one.

        Until this is decided it counts as gone: whoever takes its place must fit without it. One that was only just
        given its place, in this cycle, does not get it: nobody need know.
        """
        context, node = self._context, task.node
        assert node is not None and task.job is not None
        leaf = context.tree.jobs[task.job.key]
        departure = Eviction(task, leaf, node, task.status, task.started, task.owed, heir)
        for plugin in context.policy.followers:
            plugin.removed(task, node)
        if heir is not None:
            context.order.transfer_entitlement(leaf, heir, task.shape.ask)
        if departure.was_bound_this_cycle:
            context.state.unplace(task)
            task.owed = True
        else:
            context.state.evict(task)
        # What a job is owed depends on which of its tasks run: the order is told once that is settled.
        context.order.uncharge(leaf, task.shape.ask, departure.started, 1, departure.owed)
        context.nodes.touch(node)
        self.evictions.append(departure)

    def undo_evict(self, task: Task) -> None:
        """Undo an eviction: the task stays after all."""
        context = self._context
        at = next(i for i in reversed(range(len(self.evictions))) if self.evictions[i].task is task)
        gone = self.evictions.pop(at)
        if gone.was_bound_this_cycle:
            context.state.place(task, gone.node, gone.started)
            task.owed = gone.owed
        else:
            context.state.unevict(task, gone.status)
        context.order.charge(gone.leaf, task.shape.ask, task.started, 1, task.owed)
        if gone.beneficiary is not None:
            context.order.transfer_entitlement(gone.beneficiary, gone.leaf, task.shape.ask)
        context.nodes.touch(gone.node)
        for plugin in context.policy.followers:
            plugin.placed(task, gone.node)

    def charge(self, leaf: JobNode, ask: Items, stamp: int, tasks: int, owed: bool) -> None:
        """Count what was placed on the job's path of the share tree."""
        self._context.order.charge(leaf, ask, stamp, tasks, owed)
        self.charges.append((leaf, ask, stamp, tasks, owed))

    def without_charges(self, ask: Callable[[], bool]) -> bool:
        """The answer to a question about the accounts without what this transaction charged."""
        order = self._context.order
        for leaf, items, stamp, tasks, owed in reversed(self.charges):
            order.uncharge(leaf, items, stamp, tasks, owed)
        answer = ask()
        for leaf, items, stamp, tasks, owed in self.charges:
            order.charge(leaf, items, stamp, tasks, owed)
        return answer

    def all_evictions(self) -> list[Eviction]:
        """Everybody who was let go so far, by this transaction or those around it."""
        return [*(self._outer.all_evictions() if self._outer is not None else ()), *self.evictions]

    def all_charges(self) -> list[tuple[JobNode, Items, int, int, bool]]:
        """What was charged so far, by an outer transaction too."""
        return [*(self._outer.all_charges() if self._outer is not None else ()), *self.charges]

    def changed_nodes(self) -> set[int]:
        """The nodes on which somebody was placed or let go."""
        index = self._context.nodes.index
        left = {index[gone.node.name] for gone in self.evictions if gone.node.name in index}
        return left | {i for _, i in self._placed}

    # --- the end ------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Undo everything, last first."""
        context = self._context
        for task, index in reversed(self._placed):
            node = task.node
            assert node is not None
            for plugin in context.policy.followers:
                plugin.removed(task, node)
            context.state.unplace(task)
            task.owed = True
            context.nodes.mark_changed(index)
        for leaf, ask, stamp, tasks, owed in reversed(self.charges):
            context.order.uncharge(leaf, ask, stamp, tasks, owed)
        while self.evictions:
            self.undo_evict(self.evictions[-1].task)
        self.charges.clear()
        self._placed.clear()

    def commit(self, path: tuple[PickStep, ...] = (), explain: Explain | None = None) -> None:
        """Keep it: part of the outer transaction, or decided."""
        if self._outer is not None:
            self._outer._placed += self._placed
            self._outer.charges += self.charges
            self._outer.evictions += self.evictions
            return
        context = self._context
        decided = context.decided
        for gone in self.evictions:
            if gone.was_bound_this_cycle:
                decided.withdraw_bind(gone.task)
                continue
            assert explain is not None
            for plugin in context.policy.followers:
                plugin.placed(gone.task, gone.node)  # on its way out, it still occupies its node
            decided.evict(explain(gone))
        victims: tuple[str, ...] = ()
        if self.evictions:
            victims = tuple(gone.task.key for gone in self.evictions if not gone.was_bound_this_cycle)
        for task, index in self._placed:
            name = context.nodes.nodes[index].name
            if task.status is TaskStatus.PIPELINED:
                context.pipelined.add(task, victims)
                decided.pipeline(task, name, path)
            else:
                decided.bind(task, name, path)
        for leaf, ask, stamp, _, owed in self.charges:
            context.last_start = max(context.last_start, stamp)
            if owed and ask:
                context.tree.remember_turn(leaf, stamp)
        for _, index in self._placed:
            context.nodes.capacity_lost(index, context.candidates.mark_infeasible)
        if self._placed or self.evictions:
            context.changes.usage_changed()
            if self.evictions:
                context.sync.victims_left(self.evictions)
