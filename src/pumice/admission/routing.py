"""Route a job that names a parent queue, or none, to a leaf (docs/fairness.md, section 11).

A job that names no queue asks for the default queue: the one that an annotation of its namespace names, else the one
that the scheduler's configuration names (``defaultQueue``, which the scheduler publishes in the status of ``root``),
else ``root``, so any leaf.

Below a parent, the target is the Open leaf with the lowest utilisation: usage and pending demand, divided by the
deserved amount or, where that is not named, by its part of the cluster by weight; the maximum over all resources except
``pods``. A job that was just routed counts as pending at once, so a burst spreads. Ties go by name. If no leaf exists
yet, because the hierarchy of the parent was just written, a leaf that it names will do: the queue controller is about
to create it, and one file with queues and jobs can be applied at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final

from kubebase.resource_vector import PODS
from pumice.admission.cluster_view import ClusterView, Ranking
from pumice.admission.request import Object, Request, annotate, metadata_of, spec_of
from pumice.kube.decode.preemption_annotations import QUEUE_NAMES
from pumice.model.specs import ROOT

ROUTED: Final = "pumice.dev/routed"
"""The annotation with the chosen queue and the reason. A controller turns it into an Event."""

CROWDED: Final = 8
"""How many entries a leaf may have in a ranking, of which one is current, before it is rebuilt."""


@dataclass(frozen=True, slots=True)
class Route:
    """The result of routing a job."""

    asked: str
    queue: str
    utilisation: Fraction
    choices: int

    @property
    def message(self) -> str:
        """The chosen queue and the reason, for an Event."""
        among = (
            f"the least utilised of {self.choices} open leaf queues" if self.choices > 1 else "the only open leaf queue"
        )
        used = f"{float(self.utilisation * 100):.1f}"
        return (
            f"Routed to queue '{self.queue}', {among} below '{self.asked}'; its utilisation is {used} %, "
            "pending demand included"
        )


def route(asked: str, world: ClusterView) -> Route | None:
    """The route from a parent to a leaf below it; None if no leaf there is open."""
    ranking = world.rankings.get(asked)
    if ranking is None or len(ranking.heap) > CROWDED * (len(ranking.used) + 1):
        leaves = [name for name in world.expanded_tree.leaves(asked) if takes_routed_jobs(name, world)]
        # Planned queues may yet be rejected, so existing ones come first.
        leaves = [name for name in leaves if not world.is_planned(name)] or leaves
        used = {name: utilisation(name, world) for name in leaves}
        ranking = world.rankings[asked] = Ranking([(used[name], name) for name in leaves], used, set())
        heapify(ranking.heap)
    for name in ranking.stale & ranking.used.keys():
        ranking.used[name] = utilisation(name, world)
        heappush(ranking.heap, (ranking.used[name], name))
    ranking.stale.clear()
    while ranking.heap and ranking.heap[0][0] != ranking.used[ranking.heap[0][1]]:
        heappop(ranking.heap)  # its load has changed since
    if not ranking.heap:
        return None
    return Route(asked, ranking.heap[0][1], ranking.heap[0][0], len(ranking.used))


def takes_routed_jobs(leaf: str, world: ClusterView) -> bool:
    """Whether a leaf and all its ancestors are Open and not terminating."""
    tree = world.expanded_tree
    leaving = any(world.is_leaving(name) for name in (leaf, *(queue.name for queue in tree.above(leaf))))
    missing = world.is_planned(leaf) and not world.plans_come_true
    return tree.is_open(leaf) and not leaving and not missing


def utilisation(leaf: str, world: ClusterView) -> Fraction:
    """The utilisation of a leaf, pending demand included. A resource of which it has none counts as 1."""
    tree = world.expanded_tree
    path = tree.path(leaf)
    if path is None:
        raise ValueError(f"queue '{leaf}' is not part of the queue tree")
    part, deserved = tree.part(path), dict(tree.queues[leaf].deserved)
    most = Fraction(0)
    for j, held in enumerate(world.load(leaf)):
        if held > 0 and j != PODS:
            by_weight = part * world.capacity[j] if j < len(world.capacity) else Fraction(0)
            whole = Fraction(deserved.get(j, by_weight))
            most = max(most, held / whole if whole > 0 else Fraction(1))
    return most


def route_to_leaf(new: Object, request: Request, world: ClusterView) -> None:
    """Route a job to the queue it names, else to that of its namespace; from a parent to a leaf below."""
    asked = spec_of(new).get("queue") or ""
    if request.old is not None:
        before = spec_of(request.old).get("queue") or ""
        asked = asked or before  # an update may omit it
        if asked == before or _stands_below(before, asked, world):
            new["spec"].update({"queue": before} if before else {})
            return  # whatever the queue's state: the job is in it, or was routed there
    namespace = metadata_of(new).get("namespace") or ""
    reason = "" if asked else default_reason(namespace, world)
    asked = asked or world.default_queue(namespace) or ROOT
    tree = world.expanded_tree
    found = None if tree.path(asked) is None or tree.is_leaf(asked) else route(asked, world)
    queue = found.queue if found is not None else asked
    message = found.message if found is not None else f"Routed to queue '{queue}'"
    if found is not None or (reason and tree.path(queue) is not None):
        annotate(new, ROUTED, f"{message}; {reason}" if reason else message)
    if new["spec"].get("queue") != queue:
        new["spec"]["queue"] = queue


def default_reason(namespace: str, world: ClusterView) -> str:
    """Why a job that names no queue asks for the one that it gets."""
    if queue := world.namespace_queue(namespace):
        return f"the job names no queue, and '{queue}' is the default of namespace '{namespace}'"
    if queue := world.cluster_queue:
        return f"the job names no queue, and '{queue}' is the defaultQueue of the scheduler's configuration"
    return (
        f"the job names no queue, and neither its namespace (annotation {QUEUE_NAMES[0]}) nor the scheduler's "
        "configuration (defaultQueue) names a default"
    )


def _stands_below(queue: str, asked: str, world: ClusterView) -> bool:
    """Whether a job that asks for ``asked`` may have been routed to this queue."""
    tree = world.expanded_tree
    if asked == ROOT:
        return queue != ROOT and tree.path(queue) is not None
    return any(above.name == asked for above in tree.above(queue))
