"""The rule ``paper`` by full recursion in fractions: slow, obvious, no code in common with what it judges.

Reads nothing of the share tree but its structure, weights, what jobs hold, when their tasks started and what
they were offered. ``steps`` rounds every child's term in its parent's sums to multiples of 1 / steps, as
docs/fairness.md, section 3.6 says; without it the rule is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from kubebase.resource_vector import PODS
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree

TIE_STEPS = 2**30


class Rating(NamedTuple):
    """What the rule says of a node."""

    vector: dict[int, Fraction]
    share: Fraction
    blocked: bool


def unsaturated(tree: ShareTree) -> set[int]:
    """Y: the resources asked for by somebody who can be placed."""
    return {j for leaf in tree.jobs.values() if _able(leaf) for j, _ in leaf.ask or () if j != PODS}


def ratings(
    tree: ShareTree, capacity: list[int], steps: int | None = None, resources: set[int] | None = None
) -> dict[ShareNode, Rating]:
    """The rule applied to every node; ``resources``: as if Y were these."""
    wanted = unsaturated(tree) if resources is None else resources
    result: dict[ShareNode, Rating] = {}

    def rounded(term: Fraction) -> Fraction:
        return term if steps is None else Fraction(round(term * steps), steps)

    def rate(node: ShareNode) -> Rating:
        if isinstance(node, JobNode):
            vector = {j: _part(node.held[j], capacity[j]) for j in wanted}
            blocked = node.ask is None or any(j != PODS and j not in wanted for j, _ in node.ask)
        else:
            children = [rate(child) for child in node.children.values()]
            demanding = [child for child in children if not child.blocked]
            blocked = not demanding
            least = min((child.share for child in demanding), default=Fraction(0))
            vector = dict.fromkeys(wanted, Fraction(0))
            for child in children:
                for j in wanted:
                    if child.blocked:
                        vector[j] += rounded(child.vector[j])
                    elif child.share:
                        vector[j] += least * rounded(child.vector[j] / child.share)
        share = max(vector.values(), default=Fraction(0)) / Fraction(node.weight)
        result[node] = Rating(vector, share, blocked)
        return result[node]

    rate(tree.root)
    return result


def paper_pick(tree: ShareTree, capacity: list[int], steps: int | None = None) -> JobNode | None:
    """The job to serve: at each level the first child that has somebody below who can be placed."""
    if not any(_able(leaf) for leaf in tree.jobs.values()):
        return None
    rated = ratings(tree, capacity, steps)

    def place(node: ShareNode) -> tuple[object, ...]:
        share = round(rated[node].share * TIE_STEPS)
        served = max((start for leaf in _leaves(node) for start in leaf.starts), default=0)
        before, after = (node.before, node.after) if isinstance(node, JobNode) else ((), ())
        return before, share, after, served, node.rank

    node = tree.root
    while not isinstance(node, JobNode):
        node = min((c for c in node.children.values() if any(map(_able, _leaves(c)))), key=place)
    return node


def _part(held: int, whole: int) -> Fraction:
    return Fraction(held, whole) if whole else Fraction(1 if held else 0)


def _able(leaf: JobNode) -> bool:
    return leaf.able and leaf.ask is not None


def _leaves(node: ShareNode) -> Iterator[JobNode]:
    return (below for below in node.walk() if isinstance(below, JobNode))
