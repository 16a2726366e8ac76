"""Which leaf a job goes to that names a parent, or no queue at all (docs/fairness.md, section 11).

The Open leaf below with the lowest utilisation: what it holds and what its jobs wait for, by what it deserves or, where
it names nothing, by its part of the cluster by weight; of all resources but ``pods`` the one of which it has most.
What was routed a moment ago waits already, so a burst spreads. Ties go by name. Where no leaf exists yet, because the
hierarchy of the parent was written a moment ago, a leaf that it names will do: the queue controller is about to create
it, and one file with queues and jobs can be applied at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final

from kubebase.resource_vector import PODS
from pumice.admission.cluster_view import ClusterView, Ranking
from pumice.admission.request import Object, Request, annotate, metadata_of, spec_of
from pumice.model.specs import ROOT

ROUTED: Final = "pumice.dev/routed"
"""The annotation that says where a job went and why. Whoever looks after the object makes an Event of it."""

CROWDED: Final = 8
"""How many entries a leaf may have in a ranking, of which one is up to date, before it is made anew."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a job goes."""

    asked: str
    queue: str
    utilisation: Fraction
    choices: int

    @property
    def message(self) -> str:
        """Where it went and why, for an Event."""
        among = f"the least used of {self.choices} open queues" if self.choices > 1 else "the only open queue"
        used = f"{float(self.utilisation * 100):.1f}"
        return f"sent to queue '{self.queue}': it is {among} below '{self.asked}', with {used} % in use or waited for"


def route(asked: str, world: ClusterView) -> Route | None:
    """The way from a parent to a leaf below it; None if no leaf there is open."""
    ranking = world.rankings.get(asked)
    if ranking is None or len(ranking.heap) > CROWDED * (len(ranking.used) + 1):
        leaves = [name for name in world.expanded_tree.leaves(asked) if takes_routed_jobs(name, world)]
        # Queues that are only planned may yet be refused, so those that exist come first.
        leaves = [name for name in leaves if not world.is_planned(name)] or leaves
        used = {name: utilisation(name, world) for name in leaves}
        ranking = world.rankings[asked] = Ranking([(used[name], name) for name in leaves], used, set())
        heapify(ranking.heap)
    for name in ranking.stale & ranking.used.keys():
        ranking.used[name] = utilisation(name, world)
        heappush(ranking.heap, (ranking.used[name], name))
    ranking.stale.clear()
    while ranking.heap and ranking.heap[0][0] != ranking.used[ranking.heap[0][1]]:
        heappop(ranking.heap)  # its load has changed since then
    if not ranking.heap:
        return None
    return Route(asked, ranking.heap[0][1], ranking.heap[0][0], len(ranking.used))


def takes_routed_jobs(leaf: str, world: ClusterView) -> bool:
    """Whether a leaf is Open, with everybody above it, and is there to stay."""
    tree = world.expanded_tree
    leaving = any(world.is_leaving(name) for name in (leaf, *(queue.name for queue in tree.above(leaf))))
    missing = world.is_planned(leaf) and not world.plans_come_true
    return tree.is_open(leaf) and not leaving and not missing


def utilisation(leaf: str, world: ClusterView) -> Fraction:
    """How much of a leaf is in use or waited for. What it has none of counts as one whole."""
    tree = world.expanded_tree
    path = tree.path(leaf)
    if path is None:
        raise ValueError(f"queue '{leaf}' stands nowhere in the tree")
    part, deserved = tree.part(path), dict(tree.queues[leaf].deserved)
    most = Fraction(0)
    for j, held in enumerate(world.load(leaf)):
        if held > 0 and j != PODS:
            by_weight = part * world.capacity[j] if j < len(world.capacity) else Fraction(0)
            whole = Fraction(deserved.get(j, by_weight))
            most = max(most, held / whole if whole > 0 else Fraction(1))
    return most


def route_to_leaf(new: Object, request: Request, world: ClusterView) -> None:
    """A job goes to the queue it names, else to that of its namespace; from a parent to a leaf below."""
    asked = spec_of(new).get("queue") or ""
    if request.old is not None:
        before = spec_of(request.old).get("queue") or ""
        asked = asked or before  # a later version need not repeat it
        if asked == before or _stands_below(before, asked, world):
            new["spec"].update({"queue": before} if before else {})
            return  # whatever has become of the queue: the job is in it, or was sent there from above
    asked = asked or world.default_queue(metadata_of(new).get("namespace") or "") or ROOT
    tree = world.expanded_tree
    found = None if tree.path(asked) is None or tree.is_leaf(asked) else route(asked, world)
    if found is not None:
        annotate(new, ROUTED, found.message)
    queue = found.queue if found is not None else asked
    if new["spec"].get("queue") != queue:
        new["spec"]["queue"] = queue


def _stands_below(queue: str, asked: str, world: ClusterView) -> bool:
    """Whether a queue is one that a job which asks for ``asked`` may have been sent to."""
    tree = world.expanded_tree
    if asked == ROOT:
        return queue != ROOT and tree.path(queue) is not None
    return any(above.name == asked for above in tree.above(queue))
