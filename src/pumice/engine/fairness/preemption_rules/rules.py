"""Preemption rules: may job V lose a task so that job P can start? (docs/fairness.md, sections 9.2 and 9.3)

Evaluated on the live share tree with P's unit already charged and all victims chosen so far, including this one,
uncharged. Each answer therefore accounts for the evictions before it, at any depth.

``TargetRule`` is the counterpart of ``TargetOrder``: a job may lose what it holds beyond its integer target, and the
branch furthest above its entitlement is considered first. Between equal jobs only rounding decides which is entitled to
a unit: a job that is may transfer the unit to an equal that runs without entitlement (the *beneficiary*), and become
the victim instead. A job that holds something comes first in the next rounding, so the transfer persists. ``KeyRule``
serves every other order: at the lowest common ancestor of the two jobs, the preemptor's side must have come before the
victim's, and must not come after it now. The reverse preemption is then never legal. Two orders need more than their
keys: see ``rescaled_share_rule`` and ``deserved_rule``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from pumice.engine.fairness.preemption_rules.task_rights import has_lost_nothing, spares
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode, latest_start
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.serving_order import ServingOrder
    from pumice.engine.fairness.orders.target_order import TargetOrder

TOLERANCE = 1e-6


class PreemptionRule(Protocol):
    """Decides which jobs may lose what to one preemptor."""

    measure: str
    by_target: bool
    """Whether entitlements decide, rather than the keys of an order."""
    same_for_all: bool
    """Whether what a job may lose is the same for all preemptors, and only shrinks while these are served."""

    def excess(self, node: ShareNode) -> float:
        """How far a branch is above its entitlement; the largest is considered first."""

    def is_over_target(self, node: ShareNode) -> bool:
        """Whether a branch is considered before branches further away."""

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Quick check before the trial eviction: False only if a job certainly may not lose this much."""

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether the victim's loss is legal, now that it is uncharged."""

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """The job that takes over the victim's entitlement to these items; None: not needed, or there is none."""

    def key(self, node: ShareNode) -> float:
        """The key of a node, for reports."""

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """The keys that judged a side with that job below it: before the loss (None: its key), and now."""


def lowest_common_ancestor(preemptor: ShareNode, victim: ShareNode) -> tuple[ShareNode, ShareNode, ShareNode]:
    """The lowest common ancestor of preemptor and victim, and its child on either side."""
    above: dict[ShareNode, ShareNode] = {}
    node = preemptor
    while node.parent is not None:
        above[node.parent] = node
        node = node.parent
    node = victim
    while node.parent is not None:
        if node.parent in above:
            return node.parent, above[node.parent], node
        node = node.parent
    raise ValueError(f"{preemptor.path} and {victim.path} are in different trees")


class TargetRule:
    """Integer targets decide."""

    measure = "want"
    by_target = True
    same_for_all = True

    def __init__(self, order: TargetOrder, ask: Items) -> None:
        self._capacity = order.capacity
        self._asks = [j for j, _ in ask]
        self._equals: dict[tuple[ShareNode | None, object, Items], list[JobNode]] = {}

    def excess(self, node: ShareNode) -> float:
        """The largest excess over the entitlement, as a fraction of the cluster, over the requested resources."""
        held, due, capacity = node.held, node.due, self._capacity
        return max([(held[j] - due[j]) / (capacity[j] or 1) for j in self._asks], default=0.0)

    def is_over_target(self, node: ShareNode) -> bool:
        """Whether the branch holds more than it is entitled to."""
        return any(node.held[j] > node.due[j] for j in self._asks)

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether the job would keep its integer target, or another job could take over the entitlement."""
        return spares(victim, items) or self.beneficiary(victim, items, ()) is not None

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether the job still has its integer target."""
        return has_lost_nothing(victim, items)

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """An equal job that runs without entitlement to these items; the one that has run longest."""
        if spares(victim, items) or not has_odd_unit(victim, items):
            return None
        key = equality(victim)
        if key not in self._equals:
            above = victim.parent
            siblings = above.children.values() if above is not None else ()
            equal = [leaf for leaf in siblings if isinstance(leaf, JobNode) and equality(leaf) == key]
            self._equals[key] = sorted(equal, key=lambda leaf: (latest_start(leaf), leaf.rank))
        for leaf in self._equals[key]:
            if (
                leaf is not victim
                and leaf not in spoken_for
                and leaf.integer_target == leaf.base
                and spares(leaf, items)
            ):
                return leaf
        return None

    def key(self, node: ShareNode) -> float:
        """The deficit, as ``TargetOrder`` compares it."""
        return -self.excess(node)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By its key, whatever job is below."""
        return None, self.key(side)


def has_odd_unit(leaf: JobNode, items: Items) -> bool:
    """Whether rounding gave a job this unit on top of the integer part of its target."""
    return leaf.demand.alike and leaf.gang <= 1 and all(leaf.integer_target[j] - n >= leaf.base[j] for j, n in items)


def equality(leaf: JobNode) -> tuple[ShareNode | None, object, Items]:
    """Jobs with equal values have equal entitlements; only rounding distinguishes them."""
    return leaf.parent, (leaf.rank_class, leaf.gang, leaf.targets), leaf.demand.parts[0][0] if leaf.demand.alike else ()


class KeyRule:
    """The keys of the order in force decide; constructed before the preemptor's unit is charged.

    ``by_class``: a job may preempt jobs of lower classes, whatever both hold. ``by_share``: jobs of one class may
    preempt each other by their keys. Each is False where no plugin votes on it.
    """

    measure = "share"
    by_target = False
    same_for_all = False

    def __init__(
        self, order: ServingOrder, preemptor: JobNode, ask: Items, *, by_share: bool = True, by_class: bool = True
    ) -> None:
        self._order = order
        self._preemptor = preemptor
        self._ask = ask
        self._by_share = by_share
        self._by_class = by_class
        self._before: dict[tuple[ShareNode, ShareNode], float] = {}
        node: ShareNode = preemptor
        while node.parent is not None:
            self._before[node, preemptor.queue] = self._side(node, preemptor)
            node = node.parent

    def excess(self, node: ShareNode) -> float:
        """The branch that comes last loses first."""
        return self.key(node)

    def is_over_target(self, node: ShareNode) -> bool:
        """No branch is excluded beforehand."""
        return True

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether the victim's side came after the preemptor's before the preemption."""
        _, ours, theirs = lowest_common_ancestor(self._preemptor, victim)
        decided = self._by_classes(ours, theirs)
        if decided is not None:
            return decided
        if isinstance(theirs, JobNode) and not self._by_share:
            return False
        return self._comes_before(ours, theirs, victim, items)

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether the preemptor's side still does not come after the victim's."""
        _, ours, theirs = lowest_common_ancestor(self._preemptor, victim)
        decided = self._by_classes(ours, theirs)
        return self._stays_before(ours, theirs, victim, items) if decided is None else decided

    def _by_classes(self, ours: ShareNode, theirs: ShareNode) -> bool | None:
        """The verdict of the classes of two jobs of one queue; None if these are equal, or if only shares decide."""
        if not isinstance(ours, JobNode) or not isinstance(theirs, JobNode) or ours.rank_class == theirs.rank_class:
            return None
        if ours.rank_class < theirs.rank_class:
            return True if self._by_class else None
        return False

    def _comes_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        before = self._before.get((theirs, victim.queue))
        if before is None:
            before = self._before[theirs, victim.queue] = self._side(theirs, victim)
        return self._before[ours, self._preemptor.queue] < before - TOLERANCE

    def _stays_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        return self._side(ours, self._preemptor) <= self._side(theirs, victim) + TOLERANCE

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """There are no entitlements to transfer."""
        return None

    def key(self, node: ShareNode) -> float:
        """The key as the order compares it, over the requested resources."""
        return self._order.key_of(node, self._ask)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By the key that applied on the way down to the job."""
        return self._before.get((side, leaf.queue)), self._side(side, leaf)

    def _side(self, side: ShareNode, leaf: JobNode) -> float:
        return self._order.comparison_key(side, leaf, self._ask)
