"""Rules about the queue of a job or podgroup: it exists, is a leaf, and no ancestor closes it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from pumice.admission.cluster_view import ClusterView
from pumice.admission.queues.queue_parent import some
from pumice.admission.request import UPDATE, Refusal, Request, metadata_of, spec_of
from pumice.model.specs import ROOT, QueueState

QUEUE = "spec.queue"
TAKING = (QueueState.OPEN, QueueState.PAUSED)
"""A paused queue accepts jobs and starts none."""


def queue_exists(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The queue exists, and has a place in the tree."""
    name = _entered(request)
    if name is None:
        return
    if world.is_planned(name) and not world.plans_come_true:
        yield Refusal(f"queue '{name}' is {_state(name, world)}; retry in a few seconds", QUEUE)
    if world.expanded_tree.path(name) is not None:
        return
    if name in world.queues:
        refusal = world.expanded_tree.refusals().get(name)
        why = f": {refusal.field}: {refusal.message}" if refusal else ""
        yield Refusal(f"queue {name!r} has no valid place in the tree{why}", QUEUE)
    else:
        leaves = world.expanded_tree.leaves(ROOT)
        close = get_close_matches(name[:253], leaves, 1)
        hint = f", did you mean '{close[0]}'?" if close else f"; leaf queues: {some(leaves)}" if leaves else ""
        yield Refusal(f"Not found: queue {name[:253]!r}{_default_of(name, request, world)}{hint}", QUEUE)


def queue_is_leaf(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Only leaves accept jobs. A job that names a parent was routed to a leaf below, unless none is open."""
    name = _entered(request)
    if name is None or world.expanded_tree.path(name) is None or world.expanded_tree.is_leaf(name):
        return
    leaves = world.expanded_tree.leaves(name)
    states = [f"{leaf} is {_state(leaf, world)}" for leaf in leaves]
    why = f"none of its leaf queues is Open ({some(states)})" if states else "it has no leaf queues"
    advice = (
        "retry in a few seconds" if any(map(world.is_planned, leaves)) else "open one of them, or use another queue"
    )
    yield Refusal(f"queue '{name}' is not a leaf queue, and {why}; {advice}", QUEUE)


def queue_takes_jobs(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The queue is open, or only paused, and so are all its ancestors."""
    name = _entered(request)
    if name is None or not world.expanded_tree.is_leaf(name):
        return
    tree = world.expanded_tree
    leaving = any(world.is_leaving(queue) for queue in (name, *(above.name for above in tree.above(name))))
    if leaving or tree.in_force(name).state not in TAKING:
        yield Refusal(
            f"queue '{name}' accepts no jobs, because it is {_state(name, world)}; open it or use another queue", QUEUE
        )


def moves_only_while_pending(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A podgroup changes its queue only before it is enqueued: its usage is charged to its queue."""
    if request.operation == UPDATE and request.old is not None and _entered(request) is not None:
        phase = (request.old.get("status") or {}).get("phase") or "Pending"
        if phase != "Pending":
            message = f"Forbidden: may change only while the PodGroup is Pending; its phase is {phase}"
            yield Refusal(message, QUEUE)


def _entered(request: Request) -> str | None:
    """The queue that a request enters; None if it stays in its queue."""
    queue = str(spec_of(request.object).get("queue") or "")
    if request.operation == UPDATE and request.old is not None and queue == (spec_of(request.old).get("queue") or ""):
        return None
    return queue


def _default_of(name: str, request: Request, world: ClusterView) -> str:
    """Of what a queue is the default, for a message about a job that may not have named it itself."""
    namespace = metadata_of(request.object).get("namespace") or ""
    if world.namespace_queue(namespace) == name:
        return f" (the default of namespace '{namespace}')"
    return " (the defaultQueue of the scheduler's configuration)" if world.cluster_queue == name else ""


def _state(name: str, world: ClusterView) -> str:
    """A queue's state for messages, with the ancestor that determines it."""
    for queue in (name, *(above.name for above in world.expanded_tree.above(name))):
        if world.is_leaving(queue):
            return "being deleted" if queue == name else f"below '{queue}', which is being deleted"
    if world.is_planned(name) and not world.plans_come_true:
        return "not created yet (a hierarchy names it)"
    decides = world.expanded_tree.in_force(name)
    return decides.state.value + ("" if decides.name == name else f" (by its ancestor '{decides.name}')")


RULES = (queue_exists, queue_is_leaf, queue_takes_jobs)
