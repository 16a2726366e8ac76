"""Collect the limits that plugins set in the share tree and make them consistent, for the solver and for rounding.

Plugins set on the nodes a ceiling, a guarantee, a deserved amount, and ceilings for the users of a leaf queue. This
module collects them and resolves conflicts deterministically: guarantees that exceed what exists (nodes were lost, or a
parent's ceiling is below the sum of its children's guarantees) are cut in proportion, level by level from the root;
deserved amounts likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode

Vector = list[int]


@dataclass(frozen=True, slots=True)
class SolverBounds:
    """The limits in force. Vectors are as wide as capacity; a ceiling equal to the capacity is no ceiling."""

    nodes: list[ShareNode]  # with a ceiling or a guarantee, and the ancestors of those with a guarantee; parents first
    ceilings: dict[ShareNode, Vector]
    guarantees: dict[ShareNode, Vector]
    users: dict[ShareNode, dict[str, Vector]]  # per leaf queue: the ceilings of its users
    deserved: dict[ShareNode, dict[int, int]]  # per queue that names it, where it exceeds the guarantee

    def user_of(self, leaf: JobNode) -> tuple[ShareNode, str] | None:
        """The queue and the user whose ceiling applies to a job; None if there is no such ceiling."""
        if not self.users:
            return None
        queue = leaf.queue
        return (queue, leaf.user) if leaf.user in self.users.get(queue, ()) else None


def bounds_of(inner: Sequence[ShareNode], capacity: Vector) -> SolverBounds | None:
    """The limits of these inner nodes, given parents first; None if there are none."""
    if _name_no_limit(inner):  # the usual case: one look at each node
        return None
    ceilings = {
        node: _as_wide(node.ceiling, capacity, capacity)
        for node in inner
        if node.ceiling is not None and any(most < all_ for most, all_ in zip(node.ceiling, capacity, strict=False))
    }
    nothing = [0] * len(capacity)
    wishes = {
        node: _as_wide(node.guarantee, nothing, capacity)
        for node in inner
        if node.guarantee is not None and node.parent is not None and any(node.guarantee)
    }
    users = {
        node: {user: _as_wide(most, capacity, capacity) for user, most in node.user_ceilings.items()}
        for node in inner
        if node.user_ceilings
    }
    deserved = _deserved(inner, ceilings, capacity)
    if not (ceilings or wishes or users or deserved):
        return None
    guarantees = _possible(inner, wishes, ceilings, capacity) if wishes else {}
    above = {node for guaranteed in guarantees for node in _up(guaranteed)}
    nodes = [node for node in inner if node in above or node in ceilings or node.parent is None]
    return SolverBounds(nodes, ceilings, guarantees, users, deserved)


def _name_no_limit(inner: Sequence[ShareNode]) -> bool:
    for node in inner:
        if node.ceiling is not None or node.guarantee is not None or node.user_ceilings or node.deserved:
            return False
    return True


def _deserved(
    inner: Sequence[ShareNode], ceilings: dict[ShareNode, Vector], capacity: Vector
) -> dict[ShareNode, dict[int, int]]:
    """The deserved amounts of queues beyond their guarantees, cut like guarantees where they exceed what exists."""
    named: dict[ShareNode, dict[int, int]] = {}
    for node in inner[1:]:
        if not node.deserved:
            continue
        reserved = node.guarantee or [0] * len(capacity)
        more = {j: amount for j, amount in node.deserved if amount > reserved[j] or not amount}
        if any(more.values()):
            named[node] = more
    if not named:
        return {}
    nothing = [0] * len(capacity)
    wishes = {
        node: _as_wide([dict(node.deserved or ()).get(j, 0) for j in range(len(capacity))], nothing, capacity)
        for node in named
    }
    possible = _possible(inner, wishes, ceilings, capacity)
    return {node: {j: possible[node][j] for j in more} for node, more in named.items()}


def _as_wide(vector: Vector, missing: Vector, most: Vector) -> Vector:
    """Extend to the width of capacity (resources may have been registered since), clamped to the maximum."""
    wide = vector + missing[len(vector) :]
    return [min(max(amount, 0), all_) for amount, all_ in zip(wide, most, strict=False)]


def _possible(
    inner: Sequence[ShareNode],
    wishes: dict[ShareNode, Vector],
    ceilings: dict[ShareNode, Vector],
    capacity: Vector,
) -> dict[ShareNode, Vector]:
    """Guarantees that can all hold at once: within the ceiling at every level, and within capacity at the root."""
    claims: dict[ShareNode, Vector] = {}  # the reservation of each node: its own, or that of its children together
    inside: dict[ShareNode, Vector] = {}  # the part of it that its children reserve
    for node in reversed(inner):
        claim = inside.get(node)
        if node in wishes:
            claim = wishes[node] if claim is None else list(map(max, wishes[node], claim))
        if claim is None:
            continue
        claims[node] = list(map(min, claim, ceilings.get(node, capacity)))
        if node.parent is not None:
            together = inside.setdefault(node.parent, [0] * len(capacity))
            inside[node.parent] = [a + b for a, b in zip(together, claims[node], strict=True)]
    granted = {inner[0]: ceilings.get(inner[0], capacity)}
    for node in inner[1:]:
        if node in claims:
            assert node.parent is not None
            parts = zip(claims[node], granted[node.parent], inside[node.parent], strict=True)
            granted[node] = [claim * most // all_ if all_ > most else claim for claim, most, all_ in parts]
    return {node: list(map(min, wish, granted[node])) for node, wish in wishes.items()}


def _up(node: ShareNode | None) -> list[ShareNode]:
    nodes = []
    while node is not None:
        nodes.append(node)
        node = node.parent
    return nodes
