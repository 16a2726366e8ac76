"""Serving order of queues by deserved amounts: the queue that holds the smallest part of its deserved goes first.

See docs/fairness.md, sections 5.2 and 6.4.

Plugins supply the deserved amounts: the capacity plugin reads them from the Queue, the proportion plugin divides the
cluster by weight. A queue's *share* is the largest fraction, over the resources that it deserves, that it holds of its
deserved amount. A queue that deserves nothing has a share of 1: it comes after every queue below its deserved amount.
Among siblings the priority of queues counts before the share; a leaf's priority never outranks other branches.

Below queues, namespaces are ordered by their weighted share of the cluster, and so are jobs where a plugin asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER, HeapOrder, entry_of
from pumice.engine.fairness.preemption_rules.deserved_rule import DeservedRule
from pumice.engine.fairness.preemption_rules.rules import KeyRule, PreemptionRule
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Items


class DeservedOrder(HeapOrder):
    """Queues by priority and share. The plugin that supplies the order sets ``deserved`` and ``priority``."""

    def __init__(self, tree: ShareTree, capacity: list[int], *, jobs_by_share: bool, by_weight: bool = False) -> None:
        super().__init__(tree, capacity)
        self.by_weight = by_weight  # deserved amounts were computed from weights, not configured
        self._jobs_by_share = jobs_by_share
        self._deserved: Mapping[ShareNode, Items] = {}
        self._priority: Mapping[ShareNode, int] = {}

    def follow(self, deserved: Mapping[ShareNode, Items], priority: Mapping[ShareNode, int]) -> None:
        """Replace deserved amounts and priorities; a queue not named deserves nothing and has priority 0."""
        for queue in self.tree.queues():
            was = self._deserved.get(queue), self._priority.get(queue)
            if was != (deserved.get(queue), priority.get(queue)):
                self.tree.flag(queue)
        self._deserved, self._priority = deserved, priority

    def deserved_by(self, queue: ShareNode) -> Items:
        """The deserved amount of a queue now, as far as it is known."""
        return self._deserved.get(queue, ())

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """By weight, deserved amounts decide; else the keys, over what the unit must take from other jobs."""
        if self.by_weight:
            return DeservedRule(self, leaf, ask, by_share=by_share, by_class=by_class)
        return KeyRule(self, leaf, scarce(), by_share=by_share, by_class=by_class)

    def is_within(self, queue: ShareNode, asked: Items) -> bool:
        """Whether a queue holds no more than it deserves of the requested resources.

        A resource that the queue deserves in full does not count: only free capacity on the nodes limits it.
        """
        deserved = dict(self.deserved_by(queue))
        return all(
            queue.held[j] <= deserved.get(j, 0) or deserved.get(j, 0) >= self.capacity[j] for j, _ in asked if j != PODS
        )

    def comparison_key(self, side: ShareNode, leaf: JobNode, asked: Items) -> float:
        """The share of the first queue on the way down that names a requested resource; 1 (borrowed) if none does.

        Queues that name nothing have no measure, so they are skipped. Both sides are measured in the same way,
        whichever is the preemptor: a preemption that this allows can never be reversed.
        """
        if side.kind is not NodeKind.QUEUE:
            return self.key_of(side, asked)
        way = [leaf.queue]
        while way[-1] is not side:
            above = way[-1].parent
            assert above is not None
            way.append(above)
        resources = {j for j, _ in asked}
        for queue in reversed(way):
            if any(j in resources and due for j, due in self.deserved_by(queue)):
                return self.key_of(queue, asked)
        return 1.0

    def entitlement_of(self, queue: ShareNode) -> list[int]:
        """The deserved amount of the queue."""
        due = [0] * len(self.capacity)
        for j, amount in self.deserved_by(queue):
            due[j] = amount
        return due

    def entry(self, node: ShareNode) -> Entry:
        """Queues by priority, then share; jobs by share, with their tier keys around it."""
        if node.kind is NodeKind.QUEUE:
            _, share, *ties = entry_of(node, self.key_of(node))
            return ((-self._priority.get(node, 0),), share, *ties)
        return entry_of(node, self.key_of(node))

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """The share of a node; of a queue, over the requested resources only, if it names any of them."""
        if node.kind is NodeKind.QUEUE:
            share = deserved_share(node.held, self._deserved.get(node, ()), asked)
        elif node.kind is NodeKind.JOB and not self._jobs_by_share:
            return 0.0
        else:
            share = dominant_share(node.held, self.capacity) / node.weight
        return (share + GRID_ROUNDER) - GRID_ROUNDER


def deserved_share(held: list[int], deserved: Items, asked: Items = ()) -> float:
    """The largest fraction held of the deserved amount; over the requested resources only, if any is named.

    A queue that deserves nothing counts as 1, fully served: its last task must not keep other queues from their
    deserved amounts.
    """
    only = {j for j, _ in asked} if asked else None
    share, deserves = 0.0, False
    for j, due in deserved:
        if j == PODS or (only is not None and j not in only):
            continue
        deserves = deserves or due > 0
        if held[j]:
            part = held[j] / due if due else 1.0
            if part > share:
                share = part
    return share if deserves else 1.0
