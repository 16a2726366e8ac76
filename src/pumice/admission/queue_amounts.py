"""What a queue may be promised: its own amounts against each other, its children's sums, its ancestors' limits.

What a queue does not name constrains nobody: then the next queue above that names it does; and what it wants is what
those below it want. A parent's children are judged together, root's by what the nodes have (where they have any of a
resource). A write is refused for what it makes wrong or worse, so that a mistake can always be corrected step by step,
and so that the loss of a node keeps nobody from editing anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from pumice.admission.queue_change import QueueChange
from pumice.admission.request import Refusal
from pumice.admission.tree import Tree
from pumice.model.hierarchy import Path
from pumice.model.objects import ROOT, Items, Queue

Amounts = dict[int, int]


class Field(Enum):
    """A resource list of a queue's spec."""

    GUARANTEE = "guarantee"
    DESERVED = "deserved"
    CAPABILITY = "capability"

    def of(self, queue: Queue | None) -> Amounts:
        """What a queue names there."""
        named: Items = getattr(queue, self.value) if queue is not None else ()
        return dict(named)

    @property
    def path(self) -> str:
        """Where it stands in a manifest."""
        return f"spec.{self.value}.resource" if self is Field.GUARANTEE else f"spec.{self.value}"


GUARANTEE, DESERVED, CAPABILITY = Field.GUARANTEE, Field.DESERVED, Field.CAPABILITY


# ---- a queue by itself --------------------------------------------------------------------------------------


def deserved_within_capability(change: QueueChange) -> Iterator[Refusal]:
    """A queue is owed no more than it may use."""
    yield from _within(change, DESERVED, CAPABILITY)


def guarantee_within_deserved(change: QueueChange) -> Iterator[Refusal]:
    """No more is kept free for a queue than it is owed."""
    yield from _within(change, GUARANTEE, DESERVED)


def guarantee_within_capability(change: QueueChange) -> Iterator[Refusal]:
    """No more is kept free for a queue than it may use."""
    yield from _within(change, GUARANTEE, CAPABILITY)


def _within(change: QueueChange, less: Field, more: Field) -> Iterator[Refusal]:
    for queue in change.touched:
        was = change.before.queues.get(queue.name)
        most = more.of(queue)
        for j, amount in less.of(queue).items():
            as_before = (less.of(was).get(j), more.of(was).get(j)) == (amount, most.get(j))
            if j in most and amount > most[j] and not as_before:
                yield Refusal(
                    f"queue '{queue.name}' has {_say(change, less, j, amount)}, more than its "
                    f"{_say(change, more, j, most[j])}; raise the one or lower the other",
                    f"{less.path}.{change.world.registry.names[j]}",
                )


# ---- children together --------------------------------------------------------------------------------------


def guarantees_fit_in_guarantee(change: QueueChange) -> Iterator[Refusal]:
    """What is kept free for the children is kept free for the parent."""
    yield from _sums(change, GUARANTEE, GUARANTEE)


def guarantees_fit_in_capability(change: QueueChange) -> Iterator[Refusal]:
    """What is kept free for the children can be used by the parent."""
    yield from _sums(change, GUARANTEE, CAPABILITY)


def deserved_fits_in_deserved(change: QueueChange) -> Iterator[Refusal]:
    """What the children are owed, the parent is owed."""
    yield from _sums(change, DESERVED, DESERVED)


def _sums(change: QueueChange, want: Field, offer: Field) -> Iterator[Refusal]:
    for path in _parents(change):
        most, most_before = _offered(change, change.after, path, offer), _offered(change, change.before, path, offer)
        wanted, wanted_before = change.after.together(want.value, path), change.before.together(want.value, path)
        for j, limit in sorted(most.items()):
            total = wanted.get(j, 0)
            worse = total > wanted_before.get(j, 0) or limit < most_before.get(j, limit + 1)
            if total > limit and worse:
                who = "the cluster" if path == (ROOT,) else f"queue '{path[-1]}'"
                has = "allocatable" if path == (ROOT,) else offer.value
                yield Refusal(
                    f"the queues below {'/'.join(path)!r} would have {_say(change, want, j, total)} together, "
                    f"more than the {has} {_amount(change, j, limit)} of {who}",
                    _where(change, want),
                )


def _where(change: QueueChange, want: Field) -> str:
    """Where in the manifest the sum is made: in the queue's own amounts, or in those that it has for others."""
    handed_down = len(change.touched) > 1 and not want.of(change.queue)
    return "spec.hierarchy" if handed_down else want.path


def _parents(change: QueueChange) -> list[Path]:
    """The nodes whose children, or whose own amounts, the change is about; the lowest first."""
    found: set[Path] = set()
    for queue in change.touched:
        path = change.after.path(queue.name)
        if path is not None:
            found.update(path[:depth] for depth in range(1, len(path) + 1))
    return sorted(found, key=lambda path: (-len(path), path))


def _offered(change: QueueChange, tree: Tree, path: Path, offer: Field) -> Amounts:
    if path == (ROOT,):
        return {j: amount for j, amount in enumerate(change.world.capacity) if amount}
    return offer.of(tree.at(path))


# ---- along the ancestors ------------------------------------------------------------------------------------


def capability_within_ancestors(change: QueueChange) -> Iterator[Refusal]:
    """Nobody may use more than the nearest queue above that says how much."""
    for name in dict.fromkeys([*(queue.name for queue in change.touched), *change.after.below(change.name)]):
        if name == ROOT:
            continue
        was = {(j, amount, most) for j, amount, _, most in _beyond(change.before, name)}
        for j, amount, above, most in _beyond(change.after, name):
            if (j, amount, most) not in was:
                yield Refusal(
                    f"queue '{name}' has {_say(change, CAPABILITY, j, amount)}, more than the "
                    f"{_amount(change, j, most)} of '{above}' above it; raise the one or lower the other",
                    f"spec.capability.{change.world.registry.names[j]}",
                )


def _beyond(tree: Tree, name: str) -> Iterator[tuple[int, int, str, int]]:
    """What a queue may use beyond what the nearest above may: resource, amount, who is above, and its amount."""
    limits = CAPABILITY.of(tree.queues.get(name))
    above = [other for other in tree.above(name) if other.name != ROOT] if limits else []  # root may use the cluster
    for j, amount in limits.items():
        nearest = next((other for other in above if j in CAPABILITY.of(other)), None)
        if nearest is not None and amount > CAPABILITY.of(nearest)[j]:
            yield j, amount, nearest.name, CAPABILITY.of(nearest)[j]


def _amount(change: QueueChange, j: int, amount: int) -> str:
    return f"{change.world.registry.names[j]} {change.world.registry.format_amount(j, amount)}"


def _say(change: QueueChange, word: Field, j: int, amount: int) -> str:
    return f"{word.value} {_amount(change, j, amount)}"


RULES = (
    deserved_within_capability,
    guarantee_within_deserved,
    guarantee_within_capability,
    guarantees_fit_in_guarantee,
    guarantees_fit_in_capability,
    deserved_fits_in_deserved,
    capability_within_ancestors,
)
