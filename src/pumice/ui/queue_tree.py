"""The tree of queues in numbers: what each queue uses, is entitled to, lends, borrows and is owed.

Usage and entitlement are those that the scheduler writes into the status of queues, as in ``pumice top``. The numbers
of jobs and pods, and the requests of waiting pods, are counted from the objects themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kubebase.resource_vector import PODS, Vector, add, dominant_share, widen
from pumice.model.queue_tree import Path, QueueTree, build_queue_tree
from pumice.model.specs import ROOT, Queue
from pumice.ui.picture import PodSums, QueueSums
from pumice.ui.seen_objects import QueueSeen

PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
NO_SUMS = QueueSums()


@dataclass(slots=True)
class QueueFigures:
    """A node of the tree. Everything but ``own``, ``limit`` and the spec includes the queues below it."""

    path: Path
    name: str
    weight: Fraction | None
    part: Fraction | None
    queue: QueueSeen | None
    leaf: bool = True
    used: Vector = ()
    entitled: Vector | None = None
    own: Vector = ()
    waiting: Vector = ()
    limit: dict[int, int] = field(default_factory=dict)
    phases: Counter[str] = field(default_factory=Counter)
    holding: int = 0
    pending: int = 0
    placed: bool = True

    @property
    def id(self) -> str:
        """The path as text."""
        return "/".join(self.path)

    def unused(self, j: int) -> int:
        """How much of its own part of a resource the queue does not use."""
        return max(0, _at(self.own, j) - _at(self.used, j))

    def borrowed(self, j: int) -> int:
        """How much of a resource the queue uses beyond its own part."""
        return max(0, _at(self.used, j) - _at(self.own, j))


@dataclass(slots=True)
class QueueForest:
    """All queues by path, parents before children; those without a place come last, under their names."""

    figures: dict[str, QueueFigures]
    capacity: Vector
    notes: list[str]
    path_of: dict[str, str]
    """The path of each Queue object."""
    children: dict[str, list[str]]
    lending: tuple[Fraction, ...]
    """Per resource: the part of all unused own parts that other queues use."""

    def find(self, name: str) -> QueueFigures | None:
        """A queue by its name or path."""
        return self.figures.get(self.path_of.get(name, name))

    def lent(self, figures: QueueFigures, j: int) -> int:
        """How much of a queue's own part other queues use."""
        if figures.path == (ROOT,) or j >= len(self.lending):  # root is the whole cluster: there are no others
            return 0
        return int(figures.unused(j) * self.lending[j])

    def ancestors(self, figures: QueueFigures) -> list[QueueFigures]:
        """The queues above, root first."""
        steps = figures.path
        return [self.figures["/".join(steps[:depth])] for depth in range(1, len(steps))] if figures.placed else []

    def leaves_outside(self, figures: QueueFigures) -> list[QueueFigures]:
        """The leaf queues that are not in the subtree of a queue."""
        depth = len(figures.path)
        return [each for each in self.figures.values() if each.leaf and each.path[:depth] != figures.path]


class ForestBuilder:
    """Builds the tree again and again; places and own parts are computed only when a spec or the cluster changed."""

    def __init__(self) -> None:
        self._specs: dict[str, Queue] = {}
        self._layout = build_queue_tree({})
        self._divided: tuple[QueueTree, Vector] | None = None
        """The layout and the capacity for which the own parts and limits below hold."""
        self._parts: dict[str, tuple[Vector, dict[int, int]]] = {}

    def build(self, queues: Mapping[str, QueueSeen], sums: Mapping[str, QueueSums], capacity: Vector) -> QueueForest:
        """The tree of these queues, with the sums over the jobs that name each of them."""
        layout = self._place(queues)
        figures = _placed(layout, queues)
        strays = sorted(name for name in queues if name not in layout.path_of)
        for name in strays:
            figures[name] = QueueFigures((name,), name, None, None, queues[name], placed=False)
        children: dict[str, list[str]] = {}
        for each in figures.values():
            if each.placed and len(each.path) > 1:
                children.setdefault("/".join(each.path[:-1]), []).append(each.id)
        for path in children:
            figures[path].leaf = False
        _sum_up(figures, sums)
        _read_status(figures, children, queues.get(ROOT))
        if not any(any(each.entitled or ()) for each in figures.values()):
            for each in figures.values():  # the policy has no targets, or nothing is requested
                each.entitled = None
        self._set_parts(figures, children, capacity)
        notes = [f"queue {each.queue}: {each.field}: {each.message}" for each in layout.refusals if each.refused]
        path_of = {each.name: path for path, each in figures.items() if each.queue is not None}
        return QueueForest(figures, capacity, notes, path_of, children, _lending(figures.values(), len(capacity)))

    def _set_parts(self, figures: dict[str, QueueFigures], children: Mapping[str, list[str]], capacity: Vector) -> None:
        """Set the own part and the limit of every queue."""
        known = self._divided
        if known is not None and known[0] is self._layout and known[1] == capacity:
            for path, each in figures.items():
                each.own, each.limit = self._parts[path]
            return
        _divide(figures, children, capacity)
        _limit(figures)
        self._divided = (self._layout, capacity)
        self._parts = {path: (each.own, each.limit) for path, each in figures.items()}

    def _place(self, queues: Mapping[str, QueueSeen]) -> QueueTree:
        specs = {name: queue.spec for name, queue in queues.items()}
        if specs != self._specs:
            self._specs, self._layout = specs, build_queue_tree(specs)
        return self._layout


def _placed(layout: QueueTree, queues: Mapping[str, QueueSeen]) -> dict[str, QueueFigures]:
    totals: dict[Path, Fraction] = {}
    for path, place in layout.placements.items():
        totals[path[:-1]] = totals.get(path[:-1], Fraction(0)) + place.weight
    return {
        "/".join(path): QueueFigures(
            path,
            place.queue or path[-1],
            place.weight,
            place.weight / totals[path[:-1]],
            queues.get(place.queue) if place.queue is not None else None,
        )
        for path, place in sorted(layout.placements.items())
    }


def _sum_up(figures: dict[str, QueueFigures], sums: Mapping[str, QueueSums]) -> None:
    """Count jobs and pods, children before their parents; ``used`` is counted too, for queues without a status."""
    for each in reversed(figures.values()):
        own = sums.get(each.name, NO_SUMS) if each.queue is not None else NO_SUMS
        each.phases.update(own.phases)
        _add_pods(each, own.pods)
        above = figures.get("/".join(each.path[:-1])) if each.placed else None
        if above is not None:
            above.phases.update(each.phases)
            above.used, above.waiting = add(above.used, each.used), add(above.waiting, each.waiting)
            above.holding += each.holding
            above.pending += each.pending


def _add_pods(figures: QueueFigures, pods: PodSums) -> None:
    figures.used, figures.waiting = add(figures.used, pods.used), add(figures.waiting, pods.waiting)
    figures.holding += pods.holding
    figures.pending += pods.pending


def _read_status(figures: dict[str, QueueFigures], children: Mapping[str, list[str]], root: QueueSeen | None) -> None:
    """Take usage and entitlement from the status of queues, where the scheduler has written them.

    A node without an object has the figures in the status of root, else the usage of its children.
    """
    inner = {each.path: each for each in root.inner_nodes} if root is not None else {}
    for path, each in reversed(figures.items()):  # children before their parents
        listed = inner.get(path)
        if each.queue is not None:
            each.used = each.used if each.queue.used is None else each.queue.used
            each.entitled = each.queue.entitled
        elif listed is not None:
            each.used, each.entitled = listed.used, listed.entitled
        else:
            each.used = ()
            for child in children.get(path, ()):
                each.used = add(each.used, figures[child].used)


def _divide(figures: dict[str, QueueFigures], children: Mapping[str, list[str]], capacity: Vector) -> None:
    """Set the own part of every queue: what its spec deserves, else by weight what the others leave of the parent's."""
    if ROOT in figures:
        figures[ROOT].own = capacity
    for path, below in children.items():
        whole, children_of = figures[path].own, [figures[child] for child in below]
        deserved = [dict(_deserved(child)) for child in children_of]
        shared: list[tuple[int, Fraction]] = []  # of each resource: what is divided by weight, and by which sum
        for j, amount in enumerate(whole):
            named = sum(amounts.get(j, 0) for amounts in deserved)
            weights = (child.weight for child, amounts in zip(children_of, deserved, strict=True) if j not in amounts)
            shared.append((max(0, amount - named), sum(filter(None, weights), Fraction(0))))
        for child, amounts in zip(children_of, deserved, strict=True):
            weight = child.weight or Fraction(0)
            child.own = tuple(
                amounts[j] if j in amounts else int(rest * weight / total) for j, (rest, total) in enumerate(shared)
            )


def _deserved(figures: QueueFigures) -> Iterable[tuple[int, int]]:
    return figures.queue.spec.deserved if figures.queue is not None else ()


def _limit(figures: dict[str, QueueFigures]) -> None:
    """The most that a queue may hold: the smallest capability on its path. What root names is the cluster itself."""
    for each in figures.values():
        above = figures.get("/".join(each.path[:-1])) if each.placed else None
        limit = dict(above.limit) if above is not None else {}
        if each.queue is not None and each.path != (ROOT,):
            for j, most in each.queue.spec.capability:
                limit[j] = min(most, limit.get(j, most))
        each.limit = limit


def _lending(figures: Iterable[QueueFigures], width: int) -> tuple[Fraction, ...]:
    leaves = [each for each in figures if each.leaf]
    found = []
    for j in range(width):
        unused = sum(each.unused(j) for each in leaves)
        borrowed = sum(each.borrowed(j) for each in leaves)
        found.append(Fraction(min(borrowed, unused), unused) if unused else Fraction(0))
    return tuple(found)


def dominant(vector: Sequence[int], capacity: Sequence[int]) -> int | None:
    """The place of the resource of which a vector has the largest part; None if it has nothing."""
    parts = [
        (amount / whole if whole > 0 else 1.0, -j)
        for j, (amount, whole) in enumerate(zip(vector, widen(capacity, len(vector)), strict=False))
        if amount and j != PODS
    ]
    return -max(parts)[1] if parts else None


def limit_share(figures: QueueFigures, capacity: Sequence[int]) -> float | None:
    """The part of the cluster at which a queue stops, by its dominant resource, else the smallest; None: no limit."""
    parts = {
        j: most / capacity[j] for j, most in figures.limit.items() if j != PODS and j < len(capacity) and capacity[j]
    }
    place = dominant(figures.used, capacity)
    found = parts.get(-1 if place is None else place, min(parts.values(), default=1.0))
    return found if found < 1 else None


def share(vector: Sequence[int] | None, capacity: Sequence[int]) -> float | None:
    """The dominant share of a vector; None if the vector or the size of the cluster is unknown."""
    return round(dominant_share(vector, capacity), 6) if vector is not None and any(capacity) else None


def _at(vector: Sequence[int], j: int) -> int:
    return vector[j] if j < len(vector) else 0
