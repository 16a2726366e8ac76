"""Admit many queues that are created one after another, as from a manifest with hundreds of them.

Validating one queue builds the whole tree with it, so one at a time is quadratic in their number. Here all are
validated against the one tree that contains them all. If parents come first and nothing is rejected there, nothing
would have been rejected on the way: sums only grow, and places only fill up. If something is, each half is validated on
its own, down to the single queue, which gets the verdict of a lone request for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kubebase.field_error import FieldError
from pumice.admission.cluster_view import ClusterView, describe_queue
from pumice.admission.queues.queue_change import QueueChange
from pumice.admission.request import CREATE, Object, Request, Verdict, metadata_of, spec_of
from pumice.admission.rules import PLACE_RULES, admit, mutate
from pumice.model.queue_expansion import NEWEST
from pumice.model.specs import ROOT, Queue

Store = Callable[[Request, Object], None]
"""Stores an admitted object, and updates the view."""


def admit_queues(requests: Sequence[Request], world: ClusterView, store: Store) -> list[Verdict]:
    """The verdict on each request, as if every one before it had been validated and stored."""
    if not requests:
        return []
    if len(requests) == 1:
        verdict = admit(requests[0], world)
        if verdict.allowed and verdict.object is not None:
            store(requests[0], verdict.object)
        return [verdict]
    filled = _sound_together(requests, world)
    if filled is not None:
        for request, new in zip(requests, filled, strict=True):
            store(request, new)
        return [Verdict(new) for new in filled]
    half = len(requests) // 2
    return admit_queues(requests[:half], world, store) + admit_queues(requests[half:], world, store)


def _sound_together(requests: Sequence[Request], world: ClusterView) -> list[Object] | None:
    """The objects to store if all of them can be admitted at once; None if one at a time may differ."""
    if not all(_is_plain(request) for request in requests):
        return None
    filled = [mutate(request, world) for request in requests]
    before = world.tree
    queues: dict[str, Queue] = {}
    for new in filled:
        try:
            queue = describe_queue(new, world.registry)
        except FieldError:
            return None
        if queue.name in queues or queue.name in before.queues:
            return None
        if not any(queue.parent in there for there in ((None, ROOT), queues, before.queues)):
            return None
        queues[queue.name] = replace(queue, created=NEWEST)
    after = before.changed(queues.values())
    for queue in queues.values():
        change = QueueChange(world, queue, None, before, after, (queue,))
        if any(True for rule in PLACE_RULES for _ in rule(change)):
            return None
    return filled


def _is_plain(request: Request) -> bool:
    """Whether a request creates a queue and affects no other."""
    leaving = "deletionTimestamp" in metadata_of(request.object)
    return request.operation == CREATE and not leaving and not spec_of(request.object).get("hierarchy")
