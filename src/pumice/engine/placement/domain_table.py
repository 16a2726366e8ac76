"""Domain table: the domains of the nodes in the node table, tier by tier, as arrays.

For a gang the table sums, per domain, how many of its tasks each node could take. That is an upper bound, and exact for
equal tasks: a domain below it is skipped without an attempt. One pass over the nodes per tier answers for all domains
at once. Among the domains of a tier that may hold a gang, the one with the least room comes first, ties by name, so
that large domains stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pumice.engine.state.topology_rule import TopologyRule
from pumice.model.node_domains import NodeDomains

Slots = NDArray[np.int64]
"""Per node, how many tasks it could take."""

Need = tuple[Slots, int]
"""Where the tasks of a shape would fit, and how many of them there are."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of the network: its nodes by their indices in the node table."""

    tier: int
    name: str
    nodes: NDArray[np.intp]
    room: int  # how many of the tasks asked for it could take, at most


@dataclass(frozen=True, slots=True)
class Tier:
    """The domains of one tier. ``codes`` is the position of each node's domain in ``names``; behind the last: none."""

    number: int
    names: list[str]
    codes: NDArray[np.intp]

    def sums(self, slots: Slots) -> NDArray[np.int64]:
        """The slots of each domain."""
        found = np.bincount(self.codes, weights=slots, minlength=len(self.names) + 1)
        return found[: len(self.names)].astype(np.int64)

    def domain(self, position: int, room: int = 0) -> Domain:
        """The domain at this position."""
        return Domain(self.number, self.names[position], np.flatnonzero(self.codes == position), room)


class DomainTable:
    """The domains of all tiers, the lowest first."""

    def __init__(self, nodes: Sequence[str], domains: NodeDomains) -> None:
        inside = [domains.domains_of(name) for name in nodes]
        self._count = len(nodes)
        self.tiers: list[Tier] = []
        for number in sorted({tier for found in inside for tier in found}):
            names = sorted({found[number] for found in inside if number in found})
            position = {name: i for i, name in enumerate(names)}
            codes = np.array([position[found[number]] if number in found else len(names) for found in inside], np.intp)
            self.tiers.append(Tier(number, names, codes))

    def fitting(self, needs: Sequence[Need], rule: TopologyRule) -> Iterator[Domain]:
        """The domains that may hold all tasks and that a rule allows, in the order in which they are tried."""
        for tier in self.allowed(rule):
            sums = [tier.sums(slots) for slots, _ in needs]
            holds = np.ones(len(tier.names), np.bool_)
            for found, (_, count) in zip(sums, needs, strict=True):
                holds &= found >= count
            room = np.sum(sums, axis=0)
            for position in sorted(np.flatnonzero(holds).tolist(), key=lambda i: (int(room[i]), i)):
                if rule.chain is None or (tier.number, tier.names[position]) in rule.chain:
                    yield tier.domain(position, int(room[position]))

    def roomiest(self, needs: Sequence[Need], rule: TopologyRule) -> Domain | None:
        """The domain that could take most of the tasks; the lowest tier, then the first name, of equal ones."""
        best: tuple[int, Tier, int] | None = None
        for tier in self.allowed(rule):
            takes = np.sum([np.minimum(tier.sums(slots), count) for slots, count in needs], axis=0)
            for position in range(len(tier.names)):
                if rule.chain is not None and (tier.number, tier.names[position]) not in rule.chain:
                    continue
                if best is None or int(takes[position]) > best[0]:
                    best = int(takes[position]), tier, position
        return best[1].domain(best[2], best[0]) if best is not None else None

    def largest_sum(self, slots: Slots, rule: TopologyRule, enough: int) -> int:
        """The most slots that one domain has, as far as they matter."""
        return min(enough, max((int(tier.sums(slots).max()) for tier in self.allowed(rule)), default=0))

    def allowed(self, rule: TopologyRule) -> list[Tier]:
        """The tiers that a rule allows."""
        return [tier for tier in self.tiers if tier.number <= rule.highest]

    def mask(self, rule: TopologyRule) -> NDArray[np.bool_]:
        """The nodes that are in a domain that a rule allows."""
        allowed = self.allowed(rule)
        found = np.zeros(self._count, np.bool_)
        for tier in allowed:
            if rule.chain is None:
                found |= tier.codes < len(tier.names)
            else:
                for position in (i for i, name in enumerate(tier.names) if (tier.number, name) in rule.chain):
                    found |= tier.codes == position
        return found

    def shared_tiers(self, rule: TopologyRule) -> NDArray[np.float64]:
        """Per node, how many domains of a rule's chain it is in: the more, the closer it is to the placed tasks."""
        found = np.zeros(self._count)
        for tier in self.tiers:
            for position in (i for i, name in enumerate(tier.names) if (tier.number, name) in (rule.chain or ())):
                found += tier.codes == position
        return found
