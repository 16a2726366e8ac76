"""Taking back: may this job lose a task so that that one can start? (docs/fairness.md, sections 9.2 and 9.3)

Both answers are given on the real accounts, with the taker's unit already counted in and every victim so far, the
one in question included, counted out. So the judgement is cumulative, at any depth.

``ByTarget`` is the mirror of ``steer``: a job may lose what it holds beyond its whole target, and the branch that
is furthest above its entitlement is asked first. Of jobs that are equals it is rounding that says which has a unit by
right: one that has may hand it over to one that runs without (its *heir*), and go instead. Who holds something is ahead
in the next rounding, so it stays that way. ``ByKeys`` serves every other order: where the paths of the two
jobs part, the taker's side must have come before the victim's, and must not come after it now. The way back is then
never open. Two orders need more than their keys: see ``paper_taking`` and ``deserved_taking``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from pumice.engine.fairness.preemption_rules.task_rights import has_lost_nothing, spares
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode, latest_start
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.serving_order import ServingOrder
    from pumice.engine.fairness.orders.target_order import TargetOrder

TOLERANCE = 1e-6


class PreemptionRule(Protocol):
    """Says who may lose what to one taker."""

    measure: str
    by_target: bool
    """Whether entitlements decide, rather than the keys of an order."""

    def excess(self, node: ShareNode) -> float:
        """How far a branch is above its part; the largest is asked first."""

    def is_over_target(self, node: ShareNode) -> bool:
        """Whether a branch is to be asked at all before those further away."""

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether a job could lose this much, before it is tried: False only if it surely could not."""

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether it was right that the victim lost this."""

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """Who takes over the victim's right to this before it loses it; None: that is not needed, or nobody can."""

    def key(self, node: ShareNode) -> float:
        """The key of a node, for people."""

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By what a side with that job below it was judged when the victim lost this: before (None: its key), now."""


def lowest_common_ancestor(taker: ShareNode, victim: ShareNode) -> tuple[ShareNode, ShareNode, ShareNode]:
    """Where two paths of the tree part: the last common node, and its child on either side."""
    above: dict[ShareNode, ShareNode] = {}
    node = taker
    while node.parent is not None:
        above[node.parent] = node
        node = node.parent
    node = victim
    while node.parent is not None:
        if node.parent in above:
            return node.parent, above[node.parent], node
        node = node.parent
    raise ValueError(f"{taker.path} and {victim.path} are in different trees")


class TargetRule:
    """Whole targets decide."""

    measure = "want"
    by_target = True

    def __init__(self, order: TargetOrder, ask: Items) -> None:
        self._capacity = order.capacity
        self._asks = [j for j, _ in ask]
        self._equals: dict[tuple[ShareNode | None, object, Items], list[JobNode]] = {}

    def excess(self, node: ShareNode) -> float:
        """The largest part of the cluster, over what the taker asks for, that a branch holds beyond its due."""
        parts = [(node.held[j] - node.due[j]) / (self._capacity[j] or 1) for j in self._asks]
        return max(parts, default=0.0)

    def is_over_target(self, node: ShareNode) -> bool:
        """Whether the branch holds more than it is entitled to."""
        return any(node.held[j] > node.due[j] for j in self._asks)

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether it would still have its whole target, or somebody could take that over."""
        return spares(victim, items) or self.beneficiary(victim, items, ()) is not None

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether it has its whole target still."""
        return has_lost_nothing(victim, items)

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """An equal that runs without a right to it, the one that has run longest."""
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
        """What is missing, as ``steer`` compares it."""
        return -self.excess(node)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By its key, whoever is below."""
        return None, self.key(side)


def has_odd_unit(leaf: JobNode, items: Items) -> bool:
    """Whether rounding gave a job this on top of the whole part of its target."""
    return leaf.demand.alike and leaf.gang <= 1 and all(leaf.integer_target[j] - n >= leaf.base[j] for j, n in items)


def equality(leaf: JobNode) -> tuple[ShareNode | None, object, Items]:
    """Jobs for which this is equal are entitled to the same, and rounding alone tells them apart."""
    return leaf.parent, (leaf.rank_class, leaf.gang, leaf.targets), leaf.demand.parts[0][0] if leaf.demand.alike else ()


class KeyRule:
    """The keys of the order in force decide; made before the taker's unit is counted in.

    ``by_class``: a job may take from jobs of lower classes whatever both hold. ``by_share``: jobs of one class may
    take from each other by their keys. Each is False where no plugin has a say in it.
    """

    measure = "share"
    by_target = False

    def __init__(
        self, order: ServingOrder, taker: JobNode, ask: Items, *, by_share: bool = True, by_class: bool = True
    ) -> None:
        self._order = order
        self._taker = taker
        self._ask = ask
        self._by_share = by_share
        self._by_class = by_class
        self._before: dict[tuple[ShareNode, ShareNode], float] = {}
        node: ShareNode = taker
        while node.parent is not None:
            self._before[node, taker.queue] = self._side(node, taker)
            node = node.parent

    def excess(self, node: ShareNode) -> float:
        """The branch that comes last loses first."""
        return self.key(node)

    def is_over_target(self, node: ShareNode) -> bool:
        """Nobody is left out beforehand."""
        return True

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether the victim's side came after the taker's to begin with."""
        _, ours, theirs = lowest_common_ancestor(self._taker, victim)
        decided = self._by_classes(ours, theirs)
        if decided is not None:
            return decided
        if isinstance(theirs, JobNode) and not self._by_share:
            return False
        return self._comes_before(ours, theirs, victim, items)

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether the taker's side still does not come after the victim's."""
        _, ours, theirs = lowest_common_ancestor(self._taker, victim)
        decided = self._by_classes(ours, theirs)
        return self._stays_before(ours, theirs, victim, items) if decided is None else decided

    def _by_classes(self, ours: ShareNode, theirs: ShareNode) -> bool | None:
        """What the classes of two jobs of one queue say: nothing if they are equals, or if only shares have a say."""
        if not isinstance(ours, JobNode) or not isinstance(theirs, JobNode) or ours.rank_class == theirs.rank_class:
            return None
        if ours.rank_class < theirs.rank_class:
            return True if self._by_class else None
        return False

    def _comes_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        before = self._before.get((theirs, victim.queue))
        if before is None:
            before = self._before[theirs, victim.queue] = self._side(theirs, victim)
        return self._before[ours, self._taker.queue] < before - TOLERANCE

    def _stays_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        return self._side(ours, self._taker) <= self._side(theirs, victim) + TOLERANCE

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """There are no rights to take over."""
        return None

    def key(self, node: ShareNode) -> float:
        """The key as the order compares it, over what is asked for."""
        return self._order.key_of(node, self._ask)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By what it was measured by on the way down to the job."""
        return self._before.get((side, leaf.queue)), self._side(side, leaf)

    def _side(self, side: ShareNode, leaf: JobNode) -> float:
        return self._order.comparison_key(side, leaf, self._ask)
