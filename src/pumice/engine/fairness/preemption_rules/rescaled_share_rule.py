"""Preemption rule of the published H-DRF: rescaled shares decide, as they do in serving.

See docs/fairness.md, section 9.4.

The rule asks the order what it would decide if only the capacity in question were available: Y is what the preemptor
and the victim ask for. Jobs that ask for anything else are blocked and count with what they hold; the others are scaled
to the minimum among them. So a group is charged neither for one child's holdings of a resource that is not at stake,
nor for what it holds beyond a pending sibling.

These shares alone would let evictions continue for ever, so three more comparisons must agree:

- The rescaled shares with Y set to everything that pending jobs ask for. Otherwise one side comes first where only cpu
  is at stake, the other where memory is too, and they preempt each other in turns with tasks of each kind.
- The plain shares, over Y and over the resources common to both tasks. A job that holds nothing and cannot be placed
  scales its whole group to nothing, so its siblings could take everything; a victim becomes pending again, which scales
  its group down. Plain shares do not depend on pending jobs, so of two opposite preemptions one is always illegal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubebase.resource_vector import PODS
from pumice.engine.fairness.preemption_rules.rules import TOLERANCE, KeyRule
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.orders.published_hdrf import PublishedHdrfOrder

Resources = tuple[int, ...]


class RescaledShareRule(KeyRule):
    """Rescaled and plain shares decide at the common ancestor; constructed before the unit is charged."""

    def __init__(
        self, order: PublishedHdrfOrder, preemptor: JobNode, ask: Items, *, by_share: bool = True, by_class: bool = True
    ) -> None:
        self._paper = order
        self._taker_held = list(preemptor.held)
        jobs = order.tree.jobs.values()
        self._wanted = {j for leaf in jobs for j, _ in leaf.ask or () if j != PODS}
        self._shares_before: dict[tuple[ShareNode, Resources], float] = {}
        self._came_before: dict[tuple[ShareNode, ShareNode, Resources, Resources], bool] = {}
        super().__init__(order, preemptor, ask, by_share=by_share, by_class=by_class)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By its rescaled share over the resources that the preemptor and the victim ask for."""
        resources = self._at_stake(items)
        return self._share_before(side, leaf, resources), self._share_now(side, leaf, resources)

    def _comes_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        at_stake, common = self._at_stake(items), self._in_common(items)
        key = ours, theirs, at_stake, common
        if key not in self._came_before:
            rescaled = [
                (self._share_before(ours, self._preemptor, over), self._share_before(theirs, victim, over))
                for over in self._views(items)
            ]
            unit = [now - before for now, before in zip(self._preemptor.held, self._taker_held, strict=True)]
            before = [held - counted for held, counted in zip(ours.held, unit, strict=True)]
            plain = (
                (self._plain_share(before, ours.weight, over), self._plain_share(theirs.held, theirs.weight, over))
                for over in (at_stake, common)
            )
            self._came_before[key] = all(mine < other - TOLERANCE for mine, other in (*rescaled, *plain))
        return self._came_before[key]

    def _stays_before(self, ours: ShareNode, theirs: ShareNode, victim: JobNode, items: Items) -> bool:
        at_stake = self._at_stake(items)
        rescaled = [
            (self._share_now(ours, self._preemptor, over), self._share_now(theirs, victim, over))
            for over in self._views(items)
        ]
        plain = (
            (self._plain_share(ours.held, ours.weight, over), self._plain_share(theirs.held, theirs.weight, over))
            for over in (at_stake, self._in_common(items))
        )
        return all(mine <= other + TOLERANCE for mine, other in (*rescaled, *plain))

    def _share_before(self, side: ShareNode, leaf: JobNode, resources: Resources) -> float:
        """The rescaled share of a side before the preemption."""
        share = self._shares_before.get((side, resources))
        if share is None:
            held = self._taker_held if leaf is self._preemptor else leaf.held
            share = self._shares_before[side, resources] = self._paper.share_if(side, resources, leaf, held)
        return share

    def _share_now(self, side: ShareNode, leaf: JobNode, resources: Resources) -> float:
        return self._paper.share_if(side, resources, leaf, leaf.held)

    def _plain_share(self, held: list[int], weight: float, resources: Resources) -> float:
        """The dominant share of a side's holdings of these resources, not rescaled."""
        capacity = self._paper.capacity
        parts = [held[j] / capacity[j] if capacity[j] > 0 else float(held[j] > 0) for j in resources]
        return max(parts, default=0.0) / weight

    def _views(self, items: Items) -> Iterable[Resources]:
        """The sets Y to compare rescaled shares for: what is at stake, and all that pending jobs ask for."""
        at_stake = self._at_stake(items)
        return dict.fromkeys((at_stake, tuple(sorted({*at_stake, *self._wanted}))))

    def _at_stake(self, items: Items) -> Resources:
        return tuple(sorted({j for j, _ in (*self._ask, *items) if j != PODS}))

    def _in_common(self, items: Items) -> Resources:
        return tuple(sorted({j for j, _ in self._ask if j != PODS} & {j for j, _ in items}))
