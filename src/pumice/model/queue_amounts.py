"""Check guarantee, deserved and capability of queues against each other (docs/fairness.md, section 6.7).

One set of rules for admission, for scenario files and for the engine. The engine starts nothing in a subtree that
violates one, unless the amount is ``clamped`` (docs/fairness.md, section 6.7): then it reports that and continues.

- one queue: guarantee <= deserved <= capability
- the children of a queue, summed: their guarantees within its guarantee, deserved and capability; their deserved
  amounts within its deserved and capability
- a queue and its nearest ancestor with a capability: capability within capability

An amount that a queue does not name constrains nothing: the nearest ancestor that names it does. Such a queue counts
with the sum of its children. Root stands for the cluster and is exempt: its size changes with its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from kubebase.resource_vector import Registry
from pumice.model.queue_tree import Path, QueuePlacement
from pumice.model.specs import ROOT, Items, Queue

Amounts = Mapping[int, int]


class Field(Enum):
    """A resource list of a queue's spec."""

    GUARANTEE = "guarantee"
    DESERVED = "deserved"
    CAPABILITY = "capability"

    def of(self, queue: Queue | None) -> dict[int, int]:
        """The amounts that a queue names in this field."""
        named: Items = getattr(queue, self.value) if queue is not None else ()
        return dict(named)

    @property
    def path(self) -> str:
        """The path of the field in a manifest."""
        return f"spec.{self.value}.resource" if self is Field.GUARANTEE else f"spec.{self.value}"


GUARANTEE, DESERVED, CAPABILITY = Field.GUARANTEE, Field.DESERVED, Field.CAPABILITY
WITHIN = (
    (GUARANTEE, GUARANTEE),
    (GUARANTEE, DESERVED),
    (GUARANTEE, CAPABILITY),
    (DESERVED, DESERVED),
    (DESERVED, CAPABILITY),
)
"""A queue's amount, and the amounts that bound it: its own, and those of its parent."""


@dataclass(frozen=True, slots=True)
class Excess:
    """An amount that exceeds its bound."""

    queue: str  # the queue with the amount: the queue itself, or the parent of the children that are summed
    path: Path
    want: Field
    offer: Field
    above: str | None  # the queue with the bound; None: the queue itself
    together: bool  # whether the amount is the sum of the children
    resource: int
    amount: int
    most: int

    @property
    def clamped(self) -> bool:
        """Whether the engine clamps it: deserved is at least the guarantee and at most the capability.

        Any other excess is a contradiction and stops the subtree.
        """
        return (self.offer is CAPABILITY and self.want is DESERVED) or (self.offer is DESERVED and not self.together)

    @property
    def rule(self) -> tuple[object, ...]:
        """The violated rule, without the amounts."""
        return self.queue, self.want, self.offer, self.together, self.resource

    def is_worse_than(self, before: Excess | None) -> bool:
        """Whether the excess is new, or larger against the same bound, or the same against a smaller one."""
        return before is None or self.amount > before.amount or self.most < before.most

    def say(self, registry: Registry) -> str:
        """Describe the violation."""
        name = registry.names[self.resource]
        amount, most = (f"{name} {registry.format_amount(self.resource, n)}" for n in (self.amount, self.most))
        if self.together:
            whose = f"queue '{self.queue}'" if self.path != (ROOT,) else "the cluster"
            offer = self.offer.value if self.path != (ROOT,) else "allocatable"
            return (
                f"the children of queue {'/'.join(self.path)!r} have {self.want.value} {amount} in total, "
                f"more than the {offer} {most} of {whose}"
            )
        whose = f"its {self.offer.value} {most}" if self.above is None else f"the {most} of its ancestor '{self.above}'"
        return (
            f"queue '{self.queue}' has {self.want.value} {amount}, more than {whose}; lower the first or "
            "raise the second"
        )


class QueueAmounts:
    """The amounts of a tree of queues."""

    def __init__(self, places: Mapping[Path, QueuePlacement], queues: Mapping[str, Queue]) -> None:
        self._places = places  # parents before their children
        self._queues = queues
        self._sums: dict[Field, dict[Path, dict[int, int]]] = {}

    @cached_property
    def naming(self) -> list[Path]:
        """The queues that name some amount, parents first."""
        named = ((path, self._at(path)) for path in self._places if path != (ROOT,))
        return [path for path, queue in named if queue is not None and any(field.of(queue) for field in Field)]

    def _at(self, path: Path) -> Queue | None:
        place = self._places.get(path)
        return None if place is None or place.queue is None else self._queues.get(place.queue)

    def together(self, field: Field, path: Path) -> Amounts:
        """The sum of an amount over the children of a node.

        A child that does not name a resource counts with the sum of its own children.
        """
        if field not in self._sums:
            sums = self._sums[field] = {}
            for child in reversed(list(self._places)):  # children before their parents
                if len(child) > 1:
                    above = sums.setdefault(child[:-1], {})
                    for j, amount in (sums.get(child, {}) | field.of(self._at(child))).items():
                        above[j] = above.get(j, 0) + amount
        return self._sums[field].get(path, {})

    def excesses(self) -> Iterator[Excess]:
        """All violations, parents first."""
        for path in self.naming:
            yield from self.excesses_at(path)

    def excesses_at(self, path: Path) -> Iterator[Excess]:
        """The violations in a queue's own amounts, and in those of its children against them."""
        queue = self._at(path)
        if queue is None or path == (ROOT,):
            return
        for want, offer in WITHIN:
            most, own, below = offer.of(queue), want.of(queue), self.together(want, path)
            for j, limit in sorted(most.items()):
                if own.get(j, 0) > limit:
                    yield Excess(queue.name, path, want, offer, None, False, j, own[j], limit)
                    if want is GUARANTEE and offer is DESERVED:
                        continue  # its deserved is its guarantee, and its children are checked against that
                if below.get(j, 0) > limit:
                    yield Excess(queue.name, path, want, offer, None, True, j, below[j], limit)
        for j, amount in sorted(CAPABILITY.of(queue).items()):
            above = self._nearest(path, j)
            if above is not None and amount > CAPABILITY.of(above)[j]:
                most_above = CAPABILITY.of(above)[j]
                yield Excess(queue.name, path, CAPABILITY, CAPABILITY, above.name, False, j, amount, most_above)

    def _nearest(self, path: Path, j: int) -> Queue | None:
        """The nearest ancestor, below root, with a capability of a resource."""
        for depth in range(len(path) - 1, 1, -1):
            queue = self._at(path[:depth])
            if queue is not None and j in CAPABILITY.of(queue):
                return queue
        return None

    def within(self, capacity: Amounts) -> Iterator[Excess]:
        """Sums of root's children that exceed the cluster, for resources that the cluster has."""
        for want in (GUARANTEE, DESERVED):
            wanted = self.together(want, (ROOT,))
            for j, limit in sorted(capacity.items()):
                if limit and wanted.get(j, 0) > limit:
                    yield Excess(ROOT, (ROOT,), want, want, None, True, j, wanted[j], limit)

    def makers(self, excess: Excess) -> list[Queue]:
        """The queues that cause an excess: the queue itself or, for a sum, the descendants that name some of it."""
        paths = [excess.path]
        if excess.together:
            depth = len(excess.path)
            paths += [path for path in self.naming if len(path) > depth and path[:depth] == excess.path]
        found = [queue for path in paths if (queue := self._at(path)) is not None]
        return [q for q in found if q.name == excess.queue or excess.resource in excess.want.of(q)]
