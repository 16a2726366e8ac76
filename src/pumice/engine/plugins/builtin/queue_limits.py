"""What capacity and proportion have in common: queues and everyone above them stay within their real capability.

Guarantees are reserved at every level. Both plugins keep ``guarantee``, ``ceiling`` and ``deserved`` of the share
tree's queues up to date, judge new work against them when it is let in and when it starts, and see to it that nobody
is evicted for something that could not start anyway, nor below what is guaranteed. What a queue deserves is the
business of the one that orders the queues; the other only limits (docs/fairness.md, section 9.9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.engine.fairness.limits.queue_bounds import beyond_limits, set_bounds
from pumice.engine.fairness.orders.deserved_order import DeservedOrder
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode, ShareTree
from pumice.engine.fairness.share_tree.usage_ledger import least_of
from pumice.engine.plugins.plugin import Arguments, Plugin
from pumice.engine.state.task import Task
from pumice.model.queue_amounts import GUARANTEE, Excess
from pumice.model.specs import ROOT, Items

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit

EXCEEDED = "GuaranteesExceedCapacity"
"""The condition of root while queues are guaranteed more than the cluster has."""


class QueueLimits(Plugin, ABC):
    """Base of the plugins that bound queues. They say what a queue deserves by ``deserves``."""

    reads_ledger = True
    by_weight = False
    """Whether what queues deserve follows from their weights; else it is what they name."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._order: DeservedOrder | None = None
        self._promised: list[int] = []  # what all queues are guaranteed together

    @abstractmethod
    def deserves(self) -> Mapping[ShareNode, Items]:
        """What every queue deserves; of one that is not named, nothing is said."""

    def queue_order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder | None:
        """Queues by priority, then by the part they hold of what they deserve."""
        self._order = DeservedOrder(tree, capacity, jobs_by_share=self.jobs_by_share, by_weight=self.by_weight)
        return self._order

    def set_bounds(self) -> None:
        """Bring the bounds of all queues, and the order that follows from them, up to date."""
        queues = self.state.queues
        self._promised = set_bounds(self.tree, queues, self.state.capacity)
        self.deserved = self.deserves()
        if self._order is not None:
            described = ((node, queues.get(node.queue_name or "")) for node in self.tree.queues())
            priority = {node: queue.priority for node, queue in described if queue is not None and queue.priority}
            self._order.follow(self.deserved, priority)

    def queue_notes(self) -> Mapping[tuple[str, str], str]:
        """That queues are guaranteed more than the cluster has: nodes were lost, which is nobody's mistake."""
        excesses = [
            Excess(ROOT, (ROOT,), GUARANTEE, GUARANTEE, None, True, j, promised, has).say(self.registry)
            for j, (promised, has) in enumerate(zip(self._promised, self.state.capacity, strict=False))
            if promised > has
        ]
        return {(ROOT, EXCEEDED): "; ".join(excesses)} if excesses else {}

    # --- work comes in and starts -------------------------------------------------------------------------------

    def enqueueable(self, leaf: JobNode) -> str | None:
        """Whether the queue and everyone above it has room for what the job starts with, promises counted.

        What jobs hold beyond their minimum is counted as room. A job that is owed is let in wherever others hold its
        part: without pods there would be nobody to reclaim it for (docs/fairness.md, section 9.10). Where another
        plugin orders queues, this one only limits: what the cluster itself may be promised is not for it to say.
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
            f"queue {queue.name} has no {self.registry.names[j]} left to promise: {sums[0]} that must run, "
            f"{sums[1]} promised and {sums[2]} asked for are more than {sums[3]}"
        )

    def _is_owed(self, queue: ShareNode, asked: Items) -> bool:
        taken = [held + promised for held, promised in zip(queue.held, queue.inqueue, strict=True)]
        due = self.order.entitlement_of(queue)
        return all(taken[j] + amount <= due[j] for j, amount in asked)

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue and everyone above it stays within its real capability, and no guarantee is touched."""
        return self._refusal(beyond_limits(self.tree, leaf, unit.ask))

    def _refusal(self, lack: tuple[ShareNode, int] | None) -> str | None:
        if lack is None:
            return None
        queue, j = lack
        assert queue.ceiling is not None
        most, name = self.registry.format_amount(j, queue.ceiling[j]), self.registry.names[j]
        return f"queue {queue.name} may hold {name} {most} at most, what others are guaranteed included"

    # --- taking back ----------------------------------------------------------------------------------------------

    def may_take(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue itself could hold the unit: no victim in another queue changes that."""
        return self._refusal(beyond_limits(self.tree, leaf, unit.ask, leaf.queue.parent))

    def reclaimable(self, taker: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether all queues on the taker's side, below where the two part, have room for what it takes."""
        assert victim.job is not None
        level, _, _ = lowest_common_ancestor(taker, self.tree.jobs[victim.job.key])
        # The unit counts as held already.
        return beyond_limits(self.tree, taker, tuple((j, 0) for j, _ in unit.ask), level) is None


def queues_between(node: ShareNode, level: ShareNode) -> list[ShareNode]:
    """A job's queue and those above it, below a node further up."""
    queues = []
    queue = node.queue
    while queue is not level:
        assert queue.parent is not None
        queues.append(queue)
        queue = queue.parent
    return queues
