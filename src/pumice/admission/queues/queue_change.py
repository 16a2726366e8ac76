"""A queue that is created or changed, with the tree before and after.

The change includes the queues that the queue's ``spec.hierarchy`` will create or update: it is validated as a whole, so
that a hierarchy is never applied in part and then rejected. A write that leaves the spec of a queue as it was (a label,
a finalizer) is no change here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from kubebase.field_error import FieldError
from pumice.admission.cluster_view import ClusterView, describe_queue
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import Refusal, Request, spec_of
from pumice.kube.decode.hierarchy_entries import entry_errors
from pumice.model.queue_expansion import NEWEST, expand_hierarchy, nested_entries
from pumice.model.queue_tree import HIERARCHY
from pumice.model.specs import Queue

MOST_SHOWN = 10
"""Errors about the keys of a hierarchy that one response lists."""
PATH_SHOWN = 80
"""Characters of a path that a message repeats."""


@dataclass(frozen=True, slots=True)
class QueueChange:
    """The input of rules about queues."""

    world: ClusterView
    queue: Queue
    old: Queue | None
    before: QueueTree
    after: QueueTree
    touched: tuple[Queue, ...]
    """The queue, and those that its hierarchy will create or change, parents first."""

    @property
    def name(self) -> str:
        """The queue under review."""
        return self.queue.name

    def new_parents(self) -> Iterator[str]:
        """Queues that get their first children, or were only planned before."""
        above = {queue.name: None for one in self.touched for queue in self.after.above(one.name)}
        return (name for name in above if self.before.path(name) is None or self.before.is_leaf(name))


def queue_change(request: Request, world: ClusterView) -> QueueChange | list[Refusal] | None:
    """The change that a request makes; refusals if it cannot be parsed, None if it changes nothing."""
    hierarchy = spec_of(request.object).get("hierarchy")
    stays = request.old is not None and hierarchy == spec_of(request.old).get("hierarchy")
    if errors := [] if stays else list(islice(entry_errors(hierarchy), MOST_SHOWN)):
        return [Refusal(error.message, error.field) for error in errors]
    try:
        queue = describe_queue(request.object, world.registry)
    except FieldError as error:
        return [Refusal(error.message, error.field)]
    before = world.tree
    old = before.queues.get(queue.name)
    levels, most = (queue.path or "").count("/"), world.settings.max_queue_depth
    if most is not None and levels > most and (old is None or old.path != queue.path):
        # Checked before the tree is built: that is quadratic in the depth, and blocks all other requests.
        field = f"metadata.annotations[{HIERARCHY}]"
        return [Refusal(too_deep(queue.path or "", levels, most), field)]
    unchanged = {"state", "created", "weights_written"}
    if old is not None and replace(queue, **{name: getattr(old, name) for name in unchanged}) == old:
        return None
    judged = replace(queue, created=NEWEST) if old is None or _moves(queue, old) else queue
    anew = judged if old is None or judged.hierarchy != old.hierarchy else replace(judged, hierarchy=())
    named = {entry.name: entry for entry in nested_entries(old.hierarchy)} if old is not None else {}
    touched = (judged, *expand_hierarchy(anew, before.queues, named))
    return QueueChange(world, judged, old, before, before.changed(touched), touched)


def too_deep(path: str, levels: int, most: int) -> str:
    """The message about a queue that would be too deep below root."""
    shown = path if len(path) <= PATH_SHOWN else f"{path[:PATH_SHOWN]}..."
    return f"Too deep: {shown!r} is {levels} levels below root; at most {most} are allowed"


def _moves(queue: Queue, old: Queue) -> bool:
    return (queue.parent, queue.path) != (old.parent, old.path)
