"""Users inside a leaf queue: how much one of them may hold (docs/fairness.md, section 8.1, YARN's limits).

A queue's *configured capacity* Q is what it deserves or, where it says nothing, its part of the cluster by weight,
whether its siblings want anything or not. Its *base* C is Q until that is used up, then what is used and the unit that
asks. A user may have an equal part of the base among the users whose work waits, or ``percent`` of it where that is
more; and never more than ``factor`` times Q. With 25 percent two users may have half each, three a third, four and more
a quarter.

A user who holds the limit or more starts nothing; the unit that asks is not counted. Whoever holds least of n users
holds less than C / n, so there is always somebody who may go on: the percentage slows users down and stops no queue.
Limits are whole amounts, rounded up, worked out in integers: what is held is whole, so ``held >= limit`` says exactly
what it would say with fractions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kubebase.resource_vector import LARGEST_AMOUNT, PODS
from pumice.engine.fairness.share_tree.tree import JobNode, NodeKind, ShareNode
from pumice.model.specs import Queue

Exact = Fraction | int

NO_PERCENT = 100
NO_FACTOR = -1


@dataclass(frozen=True, slots=True)
class UserLimitRule:
    """What a queue says about its users. None: nothing; one of the two is given."""

    percent: int | None
    factor: Fraction | None

    def limit(self, configured: Exact, base: Exact, users: int) -> int | None:
        """What one of so many users may hold of a resource; None: as much as there is."""
        limits = [most for most in (self.by_percent(base, users), self.by_factor(configured)) if most is not None]
        return min(limits, default=None)

    def by_percent(self, base: Exact, users: int) -> int | None:
        """The part of the base that each of so many users may have; None: nobody is kept waiting by anybody."""
        if self.percent is None or users <= 1:
            return None
        equal = _rounded_up(base.numerator, base.denominator * users)
        return max(equal, _rounded_up(base.numerator * self.percent, base.denominator * 100))

    def by_factor(self, configured: Exact) -> int | None:
        """So many times the configured capacity, however many users there are; None: the queue does not say."""
        if self.factor is None:
            return None
        factor = self.factor
        return _rounded_up(configured.numerator * factor.numerator, configured.denominator * factor.denominator)


def _rounded_up(amount: int, parts: int) -> int:
    return -(-amount // parts)


def user_rule(queue: Queue) -> UserLimitRule | None:
    """What a queue says about its users; None where nobody is limited."""
    percent, factor = queue.min_user_limit_percent, queue.user_limit_factor
    if percent == NO_PERCENT:
        percent = None
    if factor is None or factor == NO_FACTOR:
        return UserLimitRule(percent, None) if percent is not None else None
    # Of a decimal that somebody wrote the digits count, not the nearest binary fraction: 0.3 of 10 is 3.
    return UserLimitRule(percent, Fraction(repr(factor)))


def base_of(configured: Exact, used: int, unit: int) -> Exact:
    """The base: the configured capacity until so much is used, then what is used and the unit that asks for more."""
    return configured if used * configured.denominator < configured.numerator else used + unit


def static_parts(root: ShareNode) -> dict[ShareNode, Fraction]:
    """The part of the cluster that every queue has by weight alone: w / (sum over siblings), down the path."""
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
    """The queues right below a queue."""
    return [child for child in queue.children.values() if child.kind is NodeKind.QUEUE]


def configured_capacity(queue: Queue, part: Fraction, node: ShareNode, capacity: Sequence[int]) -> list[Exact]:
    """What a queue has by configuration, per resource: its deserved where it names it, else its part by weight.

    Where guarantees and real capabilities are in force, the node's deserved was brought within them
    (docs/fairness.md, section 6.3).
    """
    configured: list[Exact] = [part * amount for amount in capacity]
    in_force = dict(node.deserved or ())
    for j, amount in queue.deserved:
        configured[j] = in_force.get(j, amount)
    return configured


@dataclass(slots=True)
class LimitedQueue:
    """A leaf queue whose users are limited: what each of them holds and asks for there."""

    node: ShareNode
    rule: UserLimitRule
    configured: list[Exact]  # Q
    held: defaultdict[str, defaultdict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    """By user; the share tree keeps it up to date, placement by placement."""
    asked: defaultdict[str, defaultdict[int, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    """By user: what the user's jobs ask for in all, what they hold included."""

    def count(self, leaf: JobNode) -> None:
        """Add a job to the accounts of its user, and let the share tree keep them from now on."""
        held, asked = self.held[leaf.user], self.asked[leaf.user]
        leaf.user_held = held
        for j, amount in enumerate(leaf.held):
            held[j] += amount
        for j, amount in leaf.demand.total:
            asked[j] += max(amount, leaf.held[j])

    def waiting(self) -> int:
        """How many users have work that waits: n. One whose work all runs does not count."""
        return sum(any(most > self.held[user][j] for j, most in asked.items()) for user, asked in self.asked.items())

    def base(self, j: int, unit: int) -> Exact:
        """C, for a unit that asks for so much of a resource."""
        return base_of(self.configured[j], self.node.held[j], unit)

    def ceilings(self, entitled: Sequence[int] | None) -> dict[str, list[int]] | None:
        """What each user may be entitled to when the queue is entitled to so much; None: no user is limited.

        There C is Q or, where that is more, what the queue is entitled to. Before that is known (None) the factor alone
        counts, which does not depend on it.
        """
        users = self.waiting() if entitled is not None else 1
        bases = [max(c, e) for c, e in zip(self.configured, entitled or self.configured, strict=False)]
        limits = [self.rule.limit(c, base, users) for c, base in zip(self.configured, bases, strict=False)]
        if all(limit is None for limit in limits):
            return None
        ceiling = [LARGEST_AMOUNT if j == PODS or limit is None else limit for j, limit in enumerate(limits)]
        return {user: list(ceiling) for user in self.held}


def cap_users(queues: Iterable[LimitedQueue], *, solved: bool) -> None:
    """Set what users may be entitled to; ``solved``: by what their queues are entitled to, users not slowed down."""
    for queue in queues:
        queue.node.user_ceilings = queue.ceilings(queue.node.entitled if solved else None)
