"""proportion: queues share the cluster by weight alone (docs/fairness.md, section 5).

Deserved amounts follow from demand: the cluster is divided by weight, level by level, among the queues with demand, at
most up to their demand and capability, at least their guarantee.

What queues deserve may be less than the units that wait: two queues that deserve half of the cluster each and ask for
gangs of more than a half could start nothing. So a queue may exceed its deserved amount on capacity that would stay
idle, as long as no job waits for that capacity within what its own queue deserves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.engine.fairness.limits.water_filling import deserve
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.plugins.builtin.queue_limits import QueueLimits
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit


class ProportionPlugin(QueueLimits):
    """Starts nothing beyond what a queue deserves while others could use the capacity within what they deserve."""

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
        return f"queue {queue.name} already holds all that it deserves"

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue stays within its deserved amount and its limits."""
        return super().allocatable(leaf, unit) or self.beyond_deserved(leaf.queue, unit)

    def gives_way(self, leaf: JobNode, unit: AllocationUnit) -> bool:
        """Whether only the deserved amount rejects a unit, and no job waits for its resources that deserves them."""
        return super().allocatable(leaf, unit) is None and not any(j in self.tree.awaited for j, _ in unit.ask)

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue deserves the unit: if not, it preempts nothing."""
        reason = super().preemptive(leaf, unit)
        if reason is None and self.orders_queues:
            reason = self.beyond_deserved(leaf.queue, unit)
        return reason

    def beyond_deserved(self, queue: ShareNode, unit: AllocationUnit) -> str | None:
        """Why a queue does not deserve a unit on top of its holdings; None if it does."""
        deserved = dict(self.deserved.get(queue, ()))
        for j, amount in unit.ask:
            most = deserved.get(j, 0)
            if queue.held[j] + amount > most and not self._is_whole(j, most):
                return (
                    f"queue {queue.name} deserves {self.registry.names[j]} {self.registry.format_amount(j, most)} now"
                )
        return None

    def _is_whole(self, j: int, amount: int) -> bool:
        """Whether a queue deserves all of a resource: then only free capacity on the nodes limits it."""
        return amount >= self.state.capacity[j]
