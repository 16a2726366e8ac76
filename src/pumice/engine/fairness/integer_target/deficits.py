"""The deficits of nodes: by how much their entitlements exceed the integer targets below them.

Entitlements are exact, in parts of 2^-40, and do not fit a machine word. Nearly always the rounded entitlement of a
node, or its float, gives the same answer in a fraction of the time. Only where a comparison is close is it repeated
exactly: each method returns what exact arithmetic returns.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.model.specs import Items

TOLERANCE = 10**6
"""A unit fits if it exceeds the deficit by no more than one part in this many."""
LEAST = EXACT * (TOLERANCE - 1)

LARGE = 2.0**8
"""Up to this many times the cluster, floats give a key with an error below 2^-41."""
CLEAR = 2.0**-31 - 2.0**-40
"""A key that is no further than this from its multiple of 2^-30 is rounded to it despite that error."""


class Deficits:
    """What nodes miss, on a cluster of this capacity."""

    __slots__ = ("_negligible", "_offered", "capacity", "nothing")

    def __init__(self, capacity: list[int]) -> None:
        self.capacity = list(capacity)
        # A deficit below the grid on which keys are compared counts as zero.
        self.nothing = [offered * EXACT // 2**30 for offered in capacity]
        self._negligible = [nothing // EXACT for nothing in self.nothing]
        self._offered = [float(offered or 1) for offered in capacity]

    def holds(self, node: ShareNode, unit: Items) -> bool:
        """Whether a unit fits wholly into the deficit of a node; at the root, into what is left of the cluster."""
        whole = node.integer_target
        if node.parent is None:
            capacity = self.capacity
            for j, amount in unit:
                if amount > capacity[j] - whole[j]:
                    return False
            return True
        entitled = node.entitled
        for j, amount in unit:
            spare = entitled[j] - whole[j] - amount  # what is left, but for half a part
            if spare < 1 and (spare < -2 - amount // TOLERANCE or not _holds_exactly(node, j, amount)):
                return False
        return True

    def lacks(self, node: ShareNode, j: int, amount: int) -> bool:
        """Whether so much of a resource does not fit."""
        if node.parent is None:
            return amount > self.capacity[j] - node.integer_target[j]
        spare = node.entitled[j] - node.integer_target[j] - amount
        return spare < 1 and (spare < -2 - amount // TOLERANCE or not _holds_exactly(node, j, amount))

    def misses(self, node: ShareNode, unit: Items) -> bool:
        """Whether a node has a deficit of some resource that a unit asks for."""
        for j, _ in unit:
            if self.misses_some(node, j):
                return True
        return False

    def misses_some(self, node: ShareNode, j: int) -> bool:
        """Whether a node has a deficit of a resource."""
        deficit, negligible = node.entitled[j] - node.integer_target[j], self._negligible[j]
        if deficit > negligible + 1:
            return True
        return deficit >= negligible and node.exact[j] - node.integer_target[j] * EXACT > self.nothing[j]

    def key(self, node: ShareNode, asked: Iterable[int]) -> float:
        """Minus the largest deficit of a node over some resources, as a fraction of the cluster, on the grid."""
        due, whole, offered = node.due, node.integer_target, self._offered
        want = -LARGE
        for j in asked:
            entitled, there = due[j], offered[j]
            part = (entitled - whole[j]) / there
            if part > want:
                want = part
            if entitled > LARGE * there:
                return self._exact_key(node, asked)
        key = -((want + GRID_ROUNDER) - GRID_ROUNDER)
        if -LARGE < want < LARGE and -CLEAR <= want + key <= CLEAR:
            return key
        return self._exact_key(node, asked)

    def _exact_key(self, node: ShareNode, asked: Iterable[int]) -> float:
        want = -(2.0**20)
        exact, whole = node.exact, node.integer_target
        for j in asked:
            part = (exact[j] - whole[j] * EXACT) / ((self.capacity[j] or 1) * EXACT)
            if part > want:
                want = part
        return -((want + GRID_ROUNDER) - GRID_ROUNDER)


def _holds_exactly(node: ShareNode, j: int, amount: int) -> bool:
    return amount * LEAST <= (node.exact[j] - node.integer_target[j] * EXACT) * TOLERANCE
