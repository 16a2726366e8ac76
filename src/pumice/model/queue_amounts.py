"""Guarantee, deserved and capability of queues that contradict each other (docs/fairness.md, section 6.7).

One set of rules for admission, for scenario files and for the engine. The engine lets nothing start where one is
broken, unless the amount is ``clamped`` (docs/fairness.md, section 6.7): then it says so and goes on.

- of one queue: guarantee within deserved within capability
- of the queues below one together: their guarantees within its guarantee, deserved and capability, what they deserve
  within its deserved and capability
- of a queue and the nearest above that names one: capability within capability

What a queue does not name constrains nobody: then the next queue above that names it does. And what it wants is what
those below it want. Root stands for the cluster and is not judged here: its size changes with its nodes.
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
        """What a queue names there."""
        named: Items = getattr(queue, self.value) if queue is not None else ()
        return dict(named)

    @property
    def path(self) -> str:
        """Where it stands in a manifest."""
        return f"spec.{self.value}.resource" if self is Field.GUARANTEE else f"spec.{self.value}"


GUARANTEE, DESERVED, CAPABILITY = Field.GUARANTEE, Field.DESERVED, Field.CAPABILITY
WITHIN = (
    (GUARANTEE, GUARANTEE),
    (GUARANTEE, DESERVED),
    (GUARANTEE, CAPABILITY),
    (DESERVED, DESERVED),
    (DESERVED, CAPABILITY),
)
"""What a queue wants, and what it has to stay within: its own, and that of the queue above."""


@dataclass(frozen=True, slots=True)
class Excess:
    """An amount that is larger than the one it has to stay within."""

    queue: str  # who wants it: the queue itself, or the queue whose children do together
    path: Path
    want: Field
    offer: Field
    above: str | None  # who has the other amount; None: the queue itself
    together: bool  # whether it is the queues below that want it
    resource: int
    amount: int
    most: int

    @property
    def clamped(self) -> bool:
        """Whether the engine brings it within bounds by itself: a queue deserves at least what it is guaranteed, and no
        more than it may hold. Everything else can't be meant, and stops the subtree.
        """
        return (self.offer is CAPABILITY and self.want is DESERVED) or (self.offer is DESERVED and not self.together)

    @property
    def rule(self) -> tuple[object, ...]:
        """What is broken, whatever the amounts."""
        return self.queue, self.want, self.offer, self.together, self.resource

    def is_worse_than(self, before: Excess | None) -> bool:
        """Whether it is new, or larger against the same, or the same against less."""
        return before is None or self.amount > before.amount or self.most < before.most

    def say(self, registry: Registry) -> str:
        """What is wrong, in words."""
        name = registry.names[self.resource]
        amount, most = (f"{name} {registry.format_amount(self.resource, n)}" for n in (self.amount, self.most))
        if self.together:
            whose = f"queue '{self.queue}'" if self.path != (ROOT,) else "the cluster"
            offer = self.offer.value if self.path != (ROOT,) else "allocatable"
            return (
                f"the queues below {'/'.join(self.path)!r} would have {self.want.value} {amount} together, "
                f"more than the {offer} {most} of {whose}"
            )
        whose = f"its {self.offer.value} {most}" if self.above is None else f"the {most} of '{self.above}' above it"
        return (
            f"queue '{self.queue}' has {self.want.value} {amount}, more than {whose}; raise the one or lower the other"
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
        """What the children of a node name in a resource list of theirs, added up.

        A child that does not name a resource counts with what its own children name.
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
        """Everything that is wrong, parents first."""
        for path in self.naming:
            yield from self.excesses_at(path)

    def excesses_at(self, path: Path) -> Iterator[Excess]:
        """What is wrong with a queue's own amounts, and with those of the queues below it against them."""
        queue = self._at(path)
        if queue is None or path == (ROOT,):
            return
        for want, offer in WITHIN:
            most, own, below = offer.of(queue), want.of(queue), self.together(want, path)
            for j, limit in sorted(most.items()):
                if own.get(j, 0) > limit:
                    yield Excess(queue.name, path, want, offer, None, False, j, own[j], limit)
                    if want is GUARANTEE and offer is DESERVED:
                        continue  # it deserves what it is guaranteed, and its children are judged by that
                if below.get(j, 0) > limit:
                    yield Excess(queue.name, path, want, offer, None, True, j, below[j], limit)
        for j, amount in sorted(CAPABILITY.of(queue).items()):
            above = self._nearest(path, j)
            if above is not None and amount > CAPABILITY.of(above)[j]:
                most_above = CAPABILITY.of(above)[j]
                yield Excess(queue.name, path, CAPABILITY, CAPABILITY, above.name, False, j, amount, most_above)

    def _nearest(self, path: Path, j: int) -> Queue | None:
        """The nearest queue above, below root, that names a capability of a resource."""
        for depth in range(len(path) - 1, 1, -1):
            queue = self._at(path[:depth])
            if queue is not None and j in CAPABILITY.of(queue):
                return queue
        return None

    def within(self, capacity: Amounts) -> Iterator[Excess]:
        """What root's children want together beyond what the cluster has, of what it has any of."""
        for want in (GUARANTEE, DESERVED):
            wanted = self.together(want, (ROOT,))
            for j, limit in sorted(capacity.items()):
                if limit and wanted.get(j, 0) > limit:
                    yield Excess(ROOT, (ROOT,), want, want, None, True, j, wanted[j], limit)

    def makers(self, excess: Excess) -> list[Queue]:
        """The queues whose amounts make an excess: the queue itself and, of a sum, those below that name some of it."""
        paths = [excess.path]
        if excess.together:
            depth = len(excess.path)
            paths += [path for path in self.naming if len(path) > depth and path[:depth] == excess.path]
        found = [queue for path in paths if (queue := self._at(path)) is not None]
        return [q for q in found if q.name == excess.queue or excess.resource in excess.want.of(q)]
