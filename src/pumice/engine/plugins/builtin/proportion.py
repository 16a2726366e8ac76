"""proportion: queues share the cluster by weight alone (docs/fairness.md, section 5).

What a queue deserves follows from what is asked for: the cluster is handed out by weight, level by level, to those
that want it, no more than they want or may have, no less than is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.engine.fairness.limits.water_filling import deserve
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode
from pumice.engine.plugins.builtin.queue_limits import QueueLimits
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit


class ProportionPlugin(QueueLimits):
    """Nobody starts anything beyond what its queue deserves."""

    name = "proportion"
    takes = ()
    by_weight = True

    def deserves(self) -> Mapping[ShareNode, Items]:
        """The cluster, water-filled by weight."""
        return deserve(self.tree, self.state.capacity)

    def overused(self, queue: ShareNode) -> str | None:
        """Whether the queue holds all it deserves, of every resource."""
        if any(queue.held[j] < amount or self._is_whole(j, amount) for j, amount in self.deserved.get(queue, ())):
            return None
        return f"queue {queue.name} holds all it deserves"

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue stays within what it deserves and within its limits."""
        return super().allocatable(leaf, unit) or self.beyond_deserved(leaf.queue, unit)

    def may_take(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue is to have the unit by right: if not, others keep what they have."""
        reason = super().may_take(leaf, unit)
        if reason is None and self.orders_queues:
            reason = self.beyond_deserved(leaf.queue, unit)
        return reason

    def beyond_deserved(self, queue: ShareNode, unit: AllocationUnit) -> str | None:
        """Why a queue does not deserve a unit on top of what it holds, None if it does."""
        deserved = dict(self.deserved.get(queue, ()))
        for j, amount in unit.ask:
            most = deserved.get(j, 0)
            if queue.held[j] + amount > most and not self._is_whole(j, most):
                return (
                    f"queue {queue.name} deserves {self.registry.names[j]} {self.registry.format_amount(j, most)} now"
                )
        return None

    def _is_whole(self, j: int, amount: int) -> bool:
        """Whether somebody deserves all there is of a resource: then only the nodes say that it is used up."""
        return amount >= self.state.capacity[j]
