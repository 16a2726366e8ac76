"""Rules about the amounts of queues: against each other, against the sums of children and the limits of ancestors.

The rules are those of the engine (``model.queue_amounts``). Root's children are checked against the capacity of the
nodes, for resources that these have. A write is rejected only for violations that it adds or worsens, so that an error
can always be corrected step by step, and the loss of a node blocks no edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pumice.admission.queues.queue_change import QueueChange
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import Refusal
from pumice.model.queue_amounts import Excess
from pumice.model.queue_tree import Path


def amounts_fit_together(change: QueueChange) -> Iterator[Refusal]:
    """No queue's guarantee or deserved exceeds its bounds, nor does the sum of its children's."""
    paths = _judged(change)
    before = {excess.rule: excess for excess in _excesses(change, change.before, paths)}
    for excess in _excesses(change, change.after, paths):
        if excess.is_worse_than(before.get(excess.rule)):
            yield Refusal(excess.say(change.world.registry), _where(change, excess))


def _excesses(change: QueueChange, tree: QueueTree, paths: Iterable[Path]) -> Iterator[Excess]:
    for path in paths:
        yield from tree.amounts.excesses_at(path)
    yield from tree.amounts.within(dict(enumerate(change.world.capacity)))


def _judged(change: QueueChange) -> list[Path]:
    """The queues that the change concerns, their ancestors, whose sums it may change, and descendants; lowest first.

    Where the change moves a queue, its former ancestors cannot get worse.
    """
    found: set[Path] = set()
    for queue in change.touched:
        path = change.after.path(queue.name)
        if path is not None:
            found.update(path[:depth] for depth in range(2, len(path) + 1))
    below = (change.after.path(name) for name in change.after.below(change.name))
    found.update(path for path in below if path is not None)
    return sorted(found, key=lambda path: (-len(path), path))


def _where(change: QueueChange, excess: Excess) -> str:
    """The field in the manifest with the amount: of the queue itself, or of an entry of its hierarchy."""
    resource = change.world.registry.names[excess.resource]
    if not excess.together:
        return f"{excess.want.path}.{resource}"
    handed_down = len(change.touched) > 1 and not excess.want.of(change.queue)
    return "spec.hierarchy" if handed_down else excess.want.path


RULES = (amounts_fit_together,)
