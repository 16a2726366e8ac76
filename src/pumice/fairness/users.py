"""Users inside a leaf queue: how much one of them may hold (fairness.md 8).

A queue's *configured capacity* Q is what it deserves or, where it says nothing, its part of the cluster by weight,
whether its siblings want anything or not. Its *base* C is Q until it is used up, then what is used. Of the base a
user may have an equal part, or ``percent`` of it where so many share that an equal part would be less; and never
more than ``factor`` times Q. With 25 percent two users may have half each, three a third, four and more a quarter.

Limits are whole amounts, rounded down, worked out in integers: what is held is whole, so ``held <= limit`` says
exactly what it would say with fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pumice.fairness.tree import Kind, ShareNode
from pumice.model.objects import Queue

Exact = Fraction | int

NO_PERCENT = 100
NO_FACTOR = -1


@dataclass(frozen=True, slots=True)
class UserRule:
    """What a queue says about its users. None: nothing; one of the two is given."""

    percent: int | None
    factor: Fraction | None

    def limit(self, configured: Exact, base: Exact, users: int) -> int | None:
        """The most that one of so many users may hold of a resource; None: as much as there is."""
        most = None
        if self.percent is not None and users > 1:  # whoever is alone keeps nothing from anybody
            equal = base.numerator // (base.denominator * users)
            most = max(equal, base.numerator * self.percent // (base.denominator * 100))
        if self.factor is not None:
            factor = self.factor
            by_factor = configured.numerator * factor.numerator // (configured.denominator * factor.denominator)
            most = by_factor if most is None else min(most, by_factor)
        return most


def user_rule(queue: Queue) -> UserRule | None:
    """What a queue says about its users; None where nobody is limited."""
    percent, factor = queue.min_user_limit_percent, queue.user_limit_factor
    if percent == NO_PERCENT:
        percent = None
    if factor is None or factor == NO_FACTOR:
        return UserRule(percent, None) if percent is not None else None
    # Of a decimal that somebody wrote the digits count, not the nearest binary fraction: 0.3 of 10 is 3.
    return UserRule(percent, Fraction(repr(factor)))


def base_of(configured: Exact, used: int) -> Exact:
    """The base: the configured capacity until so much is used (the asking unit included), then what is used.

    The unit counts from the beginning. Otherwise a queue whose capacity is no multiple of what its tasks ask for
    could never use up the rest, and so never grow beyond.
    """
    return configured if used * configured.denominator <= configured.numerator else used


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
    return [child for child in queue.children.values() if child.kind is Kind.QUEUE]


def configured_capacity(queue: Queue, part: Fraction, node: ShareNode, capacity: Sequence[int]) -> list[Exact]:
    """What a queue has by configuration, per resource: its deserved where it names it, else its part by weight.

    Where guarantees and real capabilities are in force, the node's deserved was brought within them (fairness.md 6).
    """
    configured: list[Exact] = [part * amount for amount in capacity]
    in_force = dict(node.deserved or ())
    for j, amount in queue.deserved:
        configured[j] = in_force.get(j, amount)
    return configured
