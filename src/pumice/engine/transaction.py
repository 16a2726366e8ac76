"""Transactions: try a change on the live state, then keep it or undo it without a trace.

No copies are made. Each step takes effect at once and is recorded; ``discard`` undoes the steps in reverse, which
restores every account exactly; ``commit`` keeps them, and the outermost commit turns them into decisions. A nested
transaction hands its steps to the outer one when it commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.engine.decisions import Evict
from pumice.engine.fairness.orders.serving_order import PickStep
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.model.specs import Items, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


@dataclass(frozen=True, slots=True)
class Eviction:
    """An evicted task, with everything needed to undo the eviction."""

    task: Task
    leaf: JobNode
    node: ClusterNode
    status: TaskStatus
    started: int
    owed: bool
    beneficiary: JobNode | None

    @property
    def was_bound_this_cycle(self) -> bool:
        """Whether the task was bound in this same cycle."""
        return self.status is TaskStatus.BINDING


Explain = Callable[[Eviction], Evict]
"""Builds the decision, with its reason, for an eviction."""


class Transaction:
    """A set of changes that takes effect as a whole or not at all."""

    __slots__ = ("_context", "_outer", "_placed", "_searches", "charges", "evictions")

    def __init__(self, context: SchedulingContext, outer: Transaction | None = None) -> None:
        self._context = context
        self._outer = outer
        self._searches = context.nodes.searches
        self._placed: list[tuple[Task, int]] = []
        self.charges: list[tuple[JobNode, Items, int, int, bool]] = []
        self.evictions: list[Eviction] = []

    # --- steps --------------------------------------------------------------------------------------------------

    def place(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Place a waiting task on the node with that index; ``owed``: whether its job was owed the unit."""
        self._place_with_status(task, index, stamp, owed, TaskStatus.BINDING)

    def pipeline(self, task: Task, index: int, stamp: int, owed: bool = True) -> None:
        """Pipeline a waiting task to the node with that index, for capacity that is free or being freed there."""
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
        """Pipeline a task of this transaction to another node instead."""
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
        """Tentatively evict a task; its integer entitlement is transferred to ``heir``, if given.

        Its usage is released at once, so that later checks in this transaction see the freed capacity. A task bound in
        this same cycle is simply unbound; no eviction is issued.
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
        # What a job is owed depends on which of its tasks run: uncharge only after the task's status has changed.
        context.order.uncharge(leaf, task.shape.ask, departure.started, 1, departure.owed)
        context.nodes.touch(node)
        self.evictions.append(departure)

    def undo_evict(self, task: Task) -> None:
        """Undo an eviction."""
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
        """Charge what was placed to the job's path in the share tree."""
        self._context.order.charge(leaf, ask, stamp, tasks, owed)
        self.charges.append((leaf, ask, stamp, tasks, owed))

    def without_charges(self, ask: Callable[[], bool]) -> bool:
        """Evaluate ``ask`` on the accounts without the charges of this transaction."""
        order = self._context.order
        for leaf, items, stamp, tasks, owed in reversed(self.charges):
            order.uncharge(leaf, items, stamp, tasks, owed)
        answer = ask()
        for leaf, items, stamp, tasks, owed in self.charges:
            order.charge(leaf, items, stamp, tasks, owed)
        return answer

    def all_evictions(self) -> list[Eviction]:
        """All evictions so far, including those of outer transactions."""
        return [*(self._outer.all_evictions() if self._outer is not None else ()), *self.evictions]

    def all_charges(self) -> list[tuple[JobNode, Items, int, int, bool]]:
        """All charges so far, including those of outer transactions."""
        return [*(self._outer.all_charges() if self._outer is not None else ()), *self.charges]

    @property
    def placements(self) -> int:
        """How many tasks were placed."""
        return len(self._placed)

    def changed_nodes(self) -> set[int]:
        """The nodes on which tasks were placed or evicted."""
        index = self._context.nodes.index
        left = {index[gone.node.name] for gone in self.evictions if gone.node.name in index}
        return left | {i for _, i in self._placed}

    # --- the end ------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Undo everything, in reverse."""
        context = self._context
        if context.nodes.searches != self._searches:  # a shape may have been told that there is less than there is now
            context.nodes.gains += 1
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
        """Keep the changes: hand them to the outer transaction, or turn them into decisions."""
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
                plugin.placed(gone.task, gone.node)  # while it terminates it still occupies its node
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
        nodes, on_full = context.nodes, context.candidates.mark_infeasible
        for _, index in self._placed:
            nodes.capacity_lost(index, on_full)
        if self._placed or self.evictions:
            context.changes.usage_changed()
            if self.evictions:
                if context.eviction_audit is not None:
                    context.eviction_audit(self.evictions)
                context.sync.victims_left(self.evictions)
