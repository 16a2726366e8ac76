"""Water-filling: divide an amount by weight, within a minimum and a maximum per claimant.

See docs/fairness.md, section 5.1.

The water level is where ``sum of clamp(weight * level, least, most)`` equals the amount. It is found exactly, in
integers: claimants that the level would push beyond a bound are fixed at that bound, those on the side with the larger
total error first, and the rest is divided again. The last units that weights cannot split evenly go to the largest
fractions, then by rank, so that the parts add up to the amount and never to more.

In a tree this is done level by level: a queue's deserved amount is divided among its children.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from kubebase.resource_vector import PODS
from pumice.engine.fairness.limits.queue_bounds import reserved_for
from pumice.engine.fairness.share_tree.share_node import NodeKind, Rank, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Items


@dataclass(frozen=True, slots=True)
class Claimant:
    """A claimant for a part: between ``least`` and ``most``, by ``weight`` (a positive integer)."""

    weight: int
    least: int
    most: int
    rank: Rank


def water_fill(amount: int, wishes: list[Claimant]) -> list[int]:
    """The part of each claimant; they add up to the amount unless every claimant has its maximum."""
    if sum(wish.most for wish in wishes) <= amount:
        return [wish.most for wish in wishes]
    if sum(wish.least for wish in wishes) > amount:
        # The minimums exceed the amount: no claimant gets more than its minimum.
        wishes = [Claimant(wish.weight, 0, wish.least, wish.rank) for wish in wishes]
    parts = [0] * len(wishes)
    floating, left = list(range(len(wishes))), amount
    while floating:
        weights = sum(wishes[i].weight for i in floating)
        # Multiplied by ``weights``, so that the level needs no fraction.
        short = {i: gap for i in floating if (gap := wishes[i].least * weights - wishes[i].weight * left) > 0}
        above = {i: gap for i in floating if (gap := wishes[i].weight * left - wishes[i].most * weights) > 0}
        if not short and not above:
            _split(parts, wishes, floating, left, weights)
            break
        lifts = sum(short.values()) > sum(above.values())
        fixed = short if lifts else above
        for i in fixed:
            parts[i] = wishes[i].least if lifts else wishes[i].most
            left -= parts[i]
        floating = [i for i in floating if i not in fixed]
    return parts


def _split(parts: list[int], wishes: list[Claimant], floating: list[int], left: int, weights: int) -> None:
    """Divide what is left by weight, in whole units."""
    over = {}
    for i in floating:
        parts[i], over[i] = divmod(wishes[i].weight * left, weights)
    spare = left - sum(parts[i] for i in floating)
    for i in sorted(floating, key=lambda i: (-over[i], wishes[i].rank))[:spare]:
        parts[i] += 1


def deserve(tree: ShareTree, capacity: list[int]) -> dict[ShareNode, Items]:
    """The deserved amount of every queue, given the demand below it: the cluster divided level by level by weight."""
    deserved = {tree.root: tuple((j, amount) for j, amount in enumerate(capacity) if amount and j != PODS)}
    queues = tree.queues()
    reserved = reserved_for(queues)
    for queue in queues:
        children = [child for child in queue.children.values() if child.kind is NodeKind.QUEUE]
        if not children:
            continue
        weights = _whole([child.weight for child in children])
        parts: list[dict[int, int]] = [{} for _ in children]
        for j, amount in deserved[queue]:
            wishes = [
                _wish(child, weight, reserved[child][j], j) for child, weight in zip(children, weights, strict=True)
            ]
            for part, given, wish in zip(parts, water_fill(amount, wishes), wishes, strict=True):
                if wish.most:
                    part[j] = given
        for child, part in zip(children, parts, strict=True):
            deserved[child] = tuple(sorted(part.items()))
    return deserved


def _wish(queue: ShareNode, weight: int, least: int, j: int) -> Claimant:
    most = queue.request[j] if queue.ceiling is None else min(queue.request[j], queue.ceiling[j])
    return Claimant(weight, least, max(least, most), queue.rank)


def _whole(weights: list[float]) -> list[int]:
    """Weights as integers in the same proportion; a decimal counts by its digits."""
    exact = [Fraction(repr(weight)) for weight in weights]
    scale = lcm(*(weight.denominator for weight in exact))
    return [int(weight * scale) for weight in exact]
