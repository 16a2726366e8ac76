"""Taking back where queues deserve by weight: what is deserved decides, not whose key is smaller.

See docs/fairness.md, section 9.6.

Of whole tasks the smaller key rarely stays the smaller one: a queue that deserves 1 of 4 cpu would wait beside two that
hold 2 of 1.5 each, as after the move it holds all that it deserves and the victim two thirds. So a move is legal if

- the taker's side, its unit counted in, is within what it deserves,
- the victim's queue, and every queue above it up to where the paths part, held more than it deserves of something that
  both tasks ask for, and
- the share of the victim's side afterwards is larger than the share of the taker's side was before.

With every move the smaller of the two shares rises, so there is no way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.fairness.preemption_rules.rules import TOLERANCE, KeyRule
from pumice.engine.fairness.share_tree.tree import JobNode, NodeKind, ShareNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.deserved_order import DeservedOrder


class DeservedRule(KeyRule):
    """What queues deserve decides between queues; made before the taker's unit is counted in."""

    def __init__(
        self, order: DeservedOrder, taker: JobNode, ask: Items, *, by_share: bool = True, by_class: bool = True
    ) -> None:
        self._queues = order
        super().__init__(order, taker, ask, by_share=by_share, by_class=by_class)

    def key(self, node: ShareNode) -> float:
        """Its share of all that it deserves: the one who holds the largest part loses first."""
        return self._queues.key_of(node)

    def _comes_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        """Whether the victim's queues hold more than they deserve."""
        if theirs.kind is not NodeKind.QUEUE:
            return super()._comes_before(ours, theirs, victim, items)
        helpful = {j for j, _ in self._ask} & {j for j, _ in items}
        return any(self._is_above(j, theirs, victim) for j in helpful)

    def _stays_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        """Whether the taker's side is within what it deserves, and the victim's is not where the taker's was."""
        if theirs.kind is not NodeKind.QUEUE:
            return super()._stays_before(ours, theirs, victim, items)
        if not self._queues.is_within(ours, self._ask):
            return False
        return self._side(theirs, victim) > self._before[ours, self._taker.queue] + TOLERANCE

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
