"""A queue that is created or changed, and the tree before and after.

What a queue's ``spec.hierarchy`` will make of the queues below belongs to the change: it is judged as a whole, so that
nobody applies a hierarchy of which half is then refused. A write that leaves what a queue says as it was (a label, a
finalizer) changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pumice.admission.request import Refusal, Request
from pumice.admission.tree import NEWEST, Tree, expanded
from pumice.admission.world import World, described
from pumice.kube.errors import FieldError
from pumice.model.objects import Queue


@dataclass(frozen=True, slots=True)
class QueueChange:
    """What rules about queues are given."""

    world: World
    queue: Queue
    old: Queue | None
    before: Tree
    after: Tree
    touched: tuple[Queue, ...]
    """The queue, and those that its hierarchy will make or change, parents first."""

    @property
    def name(self) -> str:
        """The queue that is written."""
        return self.queue.name

    def new_parents(self) -> Iterator[str]:
        """Queues that took jobs before and will have queues below them."""
        above = {queue.name: None for one in self.touched for queue in self.after.above(one.name)}
        return (name for name in above if self.before.is_leaf(name))


def queue_change(request: Request, world: World) -> QueueChange | Refusal | None:
    """The change that a request means; a refusal if it cannot be read, None if it is none."""
    try:
        queue = described(request.object, world.registry)
    except FieldError as error:
        return Refusal(error.message, error.field)
    before = world.tree
    old = before.queues.get(queue.name)
    unchanged = {"state", "created", "weights_written"}
    if old is not None and replace(queue, **{name: getattr(old, name) for name in unchanged}) == old:
        return None
    judged = replace(queue, created=NEWEST) if old is None or _moves(queue, old) else queue
    anew = judged if old is None or judged.hierarchy != old.hierarchy else replace(judged, hierarchy=())
    touched = (judged, *expanded(anew, before.queues))
    return QueueChange(world, judged, old, before, before.changed(touched), touched)


def _moves(queue: Queue, old: Queue) -> bool:
    return (queue.parent, queue.path) != (old.parent, old.path)
