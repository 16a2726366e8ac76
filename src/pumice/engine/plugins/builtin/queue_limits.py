"""Common base of capacity and proportion: queues and all their ancestors stay within their real capability.

Guarantees are reserved at every level. Both plugins keep ``guarantee``, ``ceiling`` and ``deserved`` of the share
tree's queues up to date, check new work against them on enqueue and on start, and ensure that no task is evicted for a
unit that could not start anyway, nor below a guarantee. Only the plugin that orders the queues sets deserved amounts;
the other only limits (docs/fairness.md, section 9.9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.engine.fairness.limits.queue_bounds import beyond_limits, set_bounds
from pumice.engine.fairness.orders.deserved_order import DeservedOrder
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.usage_ledger import least_of
from pumice.engine.plugins.plugin import Arguments, Plugin
from pumice.engine.state.task import Task
from pumice.model.queue_amounts import GUARANTEE, Excess
from pumice.model.specs import ROOT, Items

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit

EXCEEDED = "GuaranteesExceedCapacity"
"""Condition of root while the guarantees of queues exceed the cluster."""


class QueueLimits(Plugin, ABC):
    """Base of the plugins that bound queues. They supply deserved amounts by ``deserves``."""

    reads_ledger = True
    by_weight = False
    """Whether deserved amounts follow from weights; else the queues name them."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._order: DeservedOrder | None = None
        self._promised: list[int] = []  # the sum of all queues' guarantees
        self._bounded: list[int] | None = None  # the capacity for which bounds were set last

    @abstractmethod
    def deserves(self) -> Mapping[ShareNode, Items]:
        """The deserved amount of every queue; a queue not named has none."""

    def queue_order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder | None:
        """Queues by priority, then by the fraction they hold of their deserved amount."""
        self._order = DeservedOrder(tree, capacity, jobs_by_share=self.jobs_by_share, by_weight=self.by_weight)
        return self._order

    def set_bounds(self) -> None:
        """Update the bounds of all queues, and the order that follows from them."""
        queues = self.state.queues
        if self.state.queues_changed or self._bounded != self.state.capacity:  # nothing else decides bounds of queues
            self._promised = set_bounds(self.tree, queues, self.state.capacity)
            self._bounded = list(self.state.capacity)
        self.deserved = self.deserves()
        if self._order is not None:
            described = ((node, queues.get(node.queue_name or "")) for node in self.tree.queues())
            priority = {node: queue.priority for node, queue in described if queue is not None and queue.priority}
            self._order.follow(self.deserved, priority)

    def queue_notes(self) -> Mapping[tuple[str, str], str]:
        """Report guarantees that exceed the cluster: nodes were lost, which is no configuration error."""
        excesses = [
            Excess(ROOT, (ROOT,), GUARANTEE, GUARANTEE, None, True, j, promised, has).say(self.registry)
            for j, (promised, has) in enumerate(zip(self._promised, self.state.capacity, strict=False))
            if promised > has
        ]
        return {(ROOT, EXCEEDED): "; ".join(excesses)} if excesses else {}

    # --- enqueue and allocate --------------------------------------------------------------------------------------

    def enqueueable(self, leaf: JobNode) -> str | None:
        """Whether the queue and all its ancestors have headroom for the job's minResources, promises counted as used.

        Holdings of jobs beyond their minimum count as headroom. A job that is owed capacity is enqueued even if other
        jobs hold it: without pods there would be nothing to reclaim for (docs/fairness.md, section 9.10). Where another
        plugin orders queues, this one only limits: it does not decide how much of the cluster may be promised.
        """
        asked = least_of(leaf.job)
        if self._is_owed(leaf.queue, asked):
            return None
        queue: ShareNode | None = leaf.queue
        while queue is not None:
            ceiling = queue.ceiling
            for j, amount in asked if ceiling is not None else ():
                assert ceiling is not None
                limited = ceiling[j] < self.state.capacity[j] or self.orders_queues
                if limited and queue.held[j] + queue.inqueue[j] + amount - queue.elastic[j] > ceiling[j]:
                    return self._no_promise(queue, j, amount, ceiling[j])
            queue = queue.parent
        return None

    def _no_promise(self, queue: ShareNode, j: int, asked: int, most: int) -> str:
        held = queue.held[j] - queue.elastic[j]
        sums = [self.registry.format_amount(j, n) for n in (held, queue.inqueue[j], asked, most)]
        return (
            f"queue {queue.name} cannot admit more {self.registry.names[j]}: {sums[0]} in use by required tasks, "
            f"{sums[1]} promised and {sums[2]} requested exceed {sums[3]}"
        )

    def _is_owed(self, queue: ShareNode, asked: Items) -> bool:
        taken = [held + promised for held, promised in zip(queue.held, queue.inqueue, strict=True)]
        due = self.order.entitlement_of(queue)
        return all(taken[j] + amount <= due[j] for j, amount in asked)

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue and all its ancestors stay within their real capability, outside other guarantees."""
        return self._refusal(beyond_limits(self.tree, leaf, unit.ask))

    def _refusal(self, lack: tuple[ShareNode, int] | None) -> str | None:
        if lack is None:
            return None
        queue, j = lack
        assert queue.ceiling is not None
        most, name = self.registry.format_amount(j, queue.ceiling[j]), self.registry.names[j]
        return (
            f"queue {queue.name} may hold at most {name} {most} (its capability, less the guarantees of other queues)"
        )

    # --- preemption rules -----------------------------------------------------------------------------------------

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue itself could hold the unit: no victim in another queue changes that."""
        return self._refusal(beyond_limits(self.tree, leaf, unit.ask, leaf.queue.parent))

    def reclaimable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether all queues on the preemptor's side, below the common ancestor, have headroom for the unit."""
        assert victim.job is not None
        level, _, _ = lowest_common_ancestor(preemptor, self.tree.jobs[victim.job.key])
        # The unit is already charged.
        return beyond_limits(self.tree, preemptor, tuple((j, 0) for j, _ in unit.ask), level) is None


def queues_between(node: ShareNode, level: ShareNode) -> list[ShareNode]:
    """A job's queue and its ancestors, below a node further up."""
    queues = []
    queue = node.queue
    while queue is not level:
        assert queue.parent is not None
        queues.append(queue)
        queue = queue.parent
    return queues
