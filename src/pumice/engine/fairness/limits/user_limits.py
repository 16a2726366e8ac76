"""User limits inside a leaf queue: how much one user may hold (docs/fairness.md, section 8.1, YARN's limits).

A queue's *configured capacity* Q is its deserved amount or, without one, its part of the cluster by weight, whether or
not its siblings have demand. Its *base* C is Q until that is used up, then the usage plus the requesting unit. A user
may hold an equal part of the base among the users with pending work, or ``percent`` of it where that is more; and never
more than ``factor`` times Q. With 25 percent two users may hold half each, three a third, four and more a quarter.

A user at or above the limit starts nothing; the requesting unit is not counted. Of n users the one that holds least
holds less than C / n, so there is always a user that may continue: the percentage slows users down but never stops a
queue. Limits are integers, rounded up, computed in integers: usage is an integer, so ``held >= limit`` gives exactly
the answer that fractions would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kubebase.resource_vector import LARGEST_AMOUNT, PODS
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import Queue

Exact = Fraction | int

NO_PERCENT = 100
NO_FACTOR = -1


@dataclass(frozen=True, slots=True)
class UserLimitRule:
    """The user limits of a queue. None: not set; at least one of the two is set."""

    percent: int | None
    factor: Fraction | None

    def limit(self, configured: Exact, base: Exact, users: int) -> int | None:
        """The limit of one of ``users`` users for a resource; None: unlimited."""
        limits = [most for most in (self.by_percent(base, users), self.by_factor(configured)) if most is not None]
        return min(limits, default=None)

    def by_percent(self, base: Exact, users: int) -> int | None:
        """The part of the base that each of ``users`` users may hold; None: no percentage limits them."""
        if self.percent is None or users <= 1:
            return None
        equal = _rounded_up(base.numerator, base.denominator * users)
        return max(equal, _rounded_up(base.numerator * self.percent, base.denominator * 100))

    def by_factor(self, configured: Exact) -> int | None:
        """``factor`` times the configured capacity, whatever the number of users; None: the queue sets no factor."""
        if self.factor is None:
            return None
        factor = self.factor
        return _rounded_up(configured.numerator * factor.numerator, configured.denominator * factor.denominator)


def _rounded_up(amount: int, parts: int) -> int:
    return -(-amount // parts)


def user_rule(queue: Queue) -> UserLimitRule | None:
    """The user limits that a queue sets; None if it limits no user."""
    percent, factor = queue.min_user_limit_percent, queue.user_limit_factor
    if percent == NO_PERCENT:
        percent = None
    if factor is None or factor == NO_FACTOR:
        return UserLimitRule(percent, None) if percent is not None else None
    # The digits of a written decimal count, not the nearest binary fraction: 0.3 of 10 is 3.
    return UserLimitRule(percent, Fraction(repr(factor)))


def base_of(configured: Exact, used: int, unit: int) -> Exact:
    """The base: the configured capacity until it is used up, then the usage plus the requesting unit."""
    return configured if used * configured.denominator < configured.numerator else used + unit


def static_parts(root: ShareNode) -> dict[ShareNode, Fraction]:
    """The part of the cluster of every queue by weight alone: w / (sum over siblings), down the path."""
    parts = {root: Fraction(1)}
    waiting = [root]
    while waiting:
        queue = waiting.pop()
        children = child_queues(queue)
        weights = [Fraction(repr(child.weight)) for child in children]
        total = sum(weights)
        for child, weight in zip(children, weights, strict=True):
            parts[child] = parts[queue] * weight / total
        waiting += children
    return parts


def child_queues(queue: ShareNode) -> list[ShareNode]:
    """The direct child queues of a queue."""
    return [child for child in queue.children.values() if child.kind is NodeKind.QUEUE]


def configured_capacity(queue: Queue, part: Fraction, node: ShareNode, capacity: Sequence[int]) -> list[Exact]:
    """The configured capacity of a queue per resource: its deserved where it names it, else its part by weight.

    Where guarantees and real capabilities are in force, the node's deserved was clamped to them (docs/fairness.md,
    section 6.3).
    """
    configured: list[Exact] = [part * amount for amount in capacity]
    in_force = dict(node.deserved or ())
    for j, amount in queue.deserved:
        configured[j] = in_force.get(j, amount)
    return configured


@dataclass(slots=True)
class LimitedQueue:
    """A leaf queue with user limits: the usage and the demand of each user there."""

    node: ShareNode
    rule: UserLimitRule
    configured: list[Exact]  # Q
    held: defaultdict[str, defaultdict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    """By user; the share tree updates it with every placement."""
    asked: defaultdict[str, defaultdict[int, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    """By user: the total demand of the user's jobs, usage included."""

    def count(self, leaf: JobNode) -> None:
        """Add a job to the accounts of its user, and have the share tree keep them from now on."""
        held, asked = self.held[leaf.user], self.asked[leaf.user]
        leaf.user_held = held
        for j, amount in enumerate(leaf.held):
            held[j] += amount
        for j, amount in leaf.demand.total:
            asked[j] += max(amount, leaf.held[j])

    def waiting(self) -> int:
        """The number n of users with pending work. A user whose work all runs does not count."""
        return sum(any(most > self.held[user][j] for j, most in asked.items()) for user, asked in self.asked.items())

    def base(self, j: int, unit: int) -> Exact:
        """The base C for a unit that asks for this much of a resource."""
        return base_of(self.configured[j], self.node.held[j], unit)

    def ceilings(self, entitled: Sequence[int] | None) -> dict[str, list[int]] | None:
        """The entitlement ceiling of each user, given the queue's entitlement; None: no user is limited.

        Here C is Q or, where that is more, the queue's entitlement. Before that is solved (None) only the factor
        applies, which does not depend on it.
        """
        users = self.waiting() if entitled is not None else 1
        bases = [max(c, e) for c, e in zip(self.configured, entitled or self.configured, strict=False)]
        limits = [self.rule.limit(c, base, users) for c, base in zip(self.configured, bases, strict=False)]
        if all(limit is None for limit in limits):
            return None
        ceiling = [LARGEST_AMOUNT if j == PODS or limit is None else limit for j, limit in enumerate(limits)]
        return {user: list(ceiling) for user in self.held}


def cap_users(queues: Iterable[LimitedQueue], *, solved: bool) -> None:
    """Set users' entitlement ceilings; ``solved``: from their queues' entitlements without user limits."""
    for queue in queues:
        queue.node.user_ceilings = queue.ceilings(queue.node.entitled if solved else None)
