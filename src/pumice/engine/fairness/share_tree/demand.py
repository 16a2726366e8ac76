"""The demand of a job for sharing: its unfinished tasks as a path of pieces.

See docs/fairness.md, section 3.1.
"""

from __future__ import annotations

from functools import lru_cache

from pumice.model.specs import Items

Pieces = tuple[tuple[Items, int], ...]
"""Runs of equal tasks: the request of one, and their number."""


class Demand:
    """The demand of a job: a path of pieces, its unfinished tasks in task order, equal neighbours merged.

    Where its minResources exceed the requests of its tasks, because pods are still to be created, the difference
    (``reserve``) is the last piece.
    """

    __slots__ = ("gang_items", "parts", "pieces", "reserve", "satisfied", "total")

    def __init__(self, parts: Pieces, floor: Items, gang_items: Items) -> None:
        self.parts = parts
        self.gang_items = gang_items  # the request of its gang, summed; () if it may start with any one task
        total: dict[int, int] = {}
        for items, count in parts:
            for j, amount in items:
                total[j] = total.get(j, 0) + amount * count
        self.reserve: Items = tuple((j, least - total.get(j, 0)) for j, least in floor if least > total.get(j, 0))
        for j, amount in self.reserve:
            total[j] = total.get(j, 0) + amount
        self.pieces: Pieces = (*parts, (self.reserve, 1)) if self.reserve else parts
        self.total: Items = tuple(sorted(total.items()))
        self.satisfied: tuple[float, ...] = tuple(float(count) for _, count in self.pieces)  # targets if all fits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and (self.pieces, len(self.parts), self.gang_items) == (
            other.pieces,
            len(other.parts),
            other.gang_items,
        )

    def __hash__(self) -> int:
        return hash(self.pieces)

    @property
    def alike(self) -> bool:
        """Whether all tasks have one request and there is no reserve."""
        return len(self.parts) == 1 and not self.reserve


@lru_cache(maxsize=1 << 12)
def shared_demand(parts: Pieces, floor: Items, gang_items: Items) -> Demand:
    """The demand with these parts, one object for all jobs that ask alike: most jobs of a backlog do."""
    return Demand(parts, floor, gang_items)


NO_DEMAND = Demand((), (), ())
