"""Preemption rule for queues that deserve by weight: the deserved amounts decide, not the smaller key.

See docs/fairness.md, section 9.6.

With whole tasks the smaller key rarely stays the smaller one: a queue that deserves 1 of 4 cpu would wait beside two
that hold 2 of 1.5 each, because after the preemption it holds all that it deserves and the victim two thirds. So a
preemption is legal if

- the preemptor's side, its unit charged, is within its deserved amount,
- the victim's queue, and every queue above it up to the lowest common ancestor, held more than it deserves of a
  resource that both tasks ask for, and
- the share of the victim's side afterwards is larger than the share of the preemptor's side was before.

Every such preemption raises the smaller of the two shares, so it can never be reversed.

A job that goes whole may leave its side with nothing. It may have started on lent capacity that its queue never
deserved, so the last condition gives way for it: if the preemptor's unit fills at least half of its room, and the
preemptor's queues hold no more than they deserve of any resource. Such queues are never victims, so nobody takes the
unit away again; and the job that went is more than its own queue deserves, so it preempts nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.fairness.orders.serving_order import part_of
from pumice.engine.fairness.preemption_rules.rules import TOLERANCE, KeyRule
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.deserved_order import DeservedOrder


class DeservedRule(KeyRule):
    """Deserved amounts decide between queues; constructed before the preemptor's unit is charged."""

    def __init__(
        self, order: DeservedOrder, preemptor: JobNode, ask: Items, *, by_share: bool = True, by_class: bool = True
    ) -> None:
        self._queues = order
        super().__init__(order, preemptor, ask, by_share=by_share, by_class=by_class)

    def key(self, node: ShareNode) -> float:
        """The node's share of its deserved amount: the node with the largest share loses first."""
        return self._queues.key_of(node)

    def _comes_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        """Whether the victim's queues hold more than they deserve."""
        if theirs.kind is not NodeKind.QUEUE:
            return super()._comes_before(ours, theirs, victim, items)
        helpful = {j for j, _ in self._ask} & {j for j, _ in items}
        return any(self._is_above(j, theirs, victim) for j in helpful)

    def _stays_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        """Whether the preemptor's side is within its deserved, and the victim's exceeds its earlier share."""
        if theirs.kind is not NodeKind.QUEUE:
            return super()._stays_before(ours, theirs, victim, items)
        if not self._queues.is_within(ours, self._ask):
            return False
        if self._side(theirs, victim) > self._before[ours, self._preemptor.queue] + TOLERANCE:
            return True
        capacity = self._queues.capacity
        fills_half = 2 * part_of(self._ask, capacity) >= part_of(items, capacity)
        return not victim.job.running and fills_half and self._deserves_all(ours)

    def _deserves_all(self, ours: ShareNode) -> bool:
        """Whether the preemptor's queues, up to its side, hold no more than they deserve of any resource."""
        everything = tuple((j, 0) for j in range(len(self._queues.capacity)))
        queue = self._preemptor.queue
        while self._queues.is_within(queue, everything):
            if queue is ours:
                return True
            assert queue.parent is not None
            queue = queue.parent
        return False

    def _is_above(self, j: int, theirs: ShareNode, victim: JobNode) -> bool:
        """Whether all queues from the victim's up to its side hold more of a resource than they deserve."""
        queue = victim.queue
        while dict(self._queues.deserved_by(queue)).get(j, 0) < queue.held[j]:
            if queue is theirs:
                return True
            assert queue.parent is not None
            queue = queue.parent
        return False

    def _side(self, side: ShareNode, leaf: JobNode) -> float:
        return self._queues.key_of(side)
