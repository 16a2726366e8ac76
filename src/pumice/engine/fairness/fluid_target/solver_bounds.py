"""What plugins allow and reserve in the tree, made consistent: the limits that targets and rounding keep.

Plugins write what they know on the nodes: a ceiling, a guarantee, what is deserved, ceilings for the users of a leaf
queue. Here these are collected, with what must not be left to chance: guarantees that are more than there is (nodes
were lost, or a parent may have less than its children were promised) are cut, in proportion, level by level from the
root; and so is what queues deserve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode

Vector = list[int]


@dataclass(frozen=True, slots=True)
class SolverBounds:
    """The limits in force. Vectors are as wide as capacity; a ceiling of all there is, is none."""

    nodes: list[ShareNode]  # with a ceiling or a guarantee, and all above one with a guarantee; parents first
    ceilings: dict[ShareNode, Vector]
    guarantees: dict[ShareNode, Vector]
    users: dict[ShareNode, dict[str, Vector]]  # of leaf queues: the ceilings of their users
    deserved: dict[ShareNode, dict[int, int]]  # of queues that name it, where it is more than is guaranteed

    def user_of(self, leaf: JobNode) -> tuple[ShareNode, str] | None:
        """The queue and the user whose ceiling holds for a job; None if none does."""
        if not self.users:
            return None
        queue = leaf.queue
        return (queue, leaf.user) if leaf.user in self.users.get(queue, ()) else None


def bounds_of(inner: Sequence[ShareNode], capacity: Vector) -> SolverBounds | None:
    """The limits of these inner nodes, which come parents first; None if there are none."""
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


def _deserved(
    inner: Sequence[ShareNode], ceilings: dict[ShareNode, Vector], capacity: Vector
) -> dict[ShareNode, dict[int, int]]:
    """What queues deserve beyond their guarantees; where that is more than there is, cut like guarantees."""
    named: dict[ShareNode, dict[int, int]] = {}
    for node in inner[1:]:
        reserved = node.guarantee or [0] * len(capacity)
        more = {j: amount for j, amount in node.deserved or () if amount > reserved[j] or not amount}
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
    """As wide as capacity (resources may have been registered since), and never more than all."""
    wide = vector + missing[len(vector) :]
    return [min(max(amount, 0), all_) for amount, all_ in zip(wide, most, strict=False)]


def _possible(
    inner: Sequence[ShareNode],
    wishes: dict[ShareNode, Vector],
    ceilings: dict[ShareNode, Vector],
    capacity: Vector,
) -> dict[ShareNode, Vector]:
    """Guarantees of which all can be kept at once: at every level within the ceiling, in the end within capacity."""
    claims: dict[ShareNode, Vector] = {}  # what each node would reserve, itself or by its children together
    inside: dict[ShareNode, Vector] = {}  # of this, what its children do
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
