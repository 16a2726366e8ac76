"""The queue tree as it is, or as it would be after a write.

``build_queue_tree`` of the model places every queue; a ``QueueTree`` answers the queries of the rules. Ancestors and
descendants include nodes without an object (inner segments of a path): queries walk through those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from pumice.model.queue_amounts import QueueAmounts
from pumice.model.queue_states import effective_state
from pumice.model.queue_tree import Path, PlacementRefusal, build_queue_tree
from pumice.model.specs import ROOT, Queue, QueueState


class QueueTree:
    """The places of the queues. Only the state of a queue may change while the tree is in use."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues
        self._layout = build_queue_tree(queues)
        self._refused = {refusal.queue: refusal for refusal in self._layout.refusals if refusal.refused}
        self._below: dict[Path, list[Path]] = {}
        self._parts: dict[Path, Fraction] = {}  # all of them, computed on the first query
        self.amounts = QueueAmounts(self._layout.placements, queues)
        for path in self._layout.placements:
            if len(path) > 1:
                self._below.setdefault(path[:-1], []).append(path)

    def changed(self, queues: Iterable[Queue]) -> QueueTree:
        """The tree with these queues added, replacing those of the same names."""
        return QueueTree({**self.queues, **{queue.name: queue for queue in queues}})

    def path(self, name: str) -> Path | None:
        """The path of a queue; None if it does not exist, or contradicts the others."""
        return self._layout.path_of.get(name)

    def at(self, path: Path) -> Queue | None:
        """The queue at a path; None for a node without an object."""
        place = self._layout.placements.get(path)
        return None if place is None or place.queue is None else self.queues.get(place.queue)

    def children(self, path: Path) -> list[Path]:
        """The direct children of a node."""
        return self._below.get(path, [])

    def is_leaf(self, name: str) -> bool:
        """Whether a queue accepts jobs: it has a place and no children. Root never does."""
        path = self.path(name)
        return path is not None and name != ROOT and path not in self._below

    def above(self, name: str) -> list[Queue]:
        """The ancestors of a queue, nearest first."""
        path = self.path(name) or ()
        found = (self.at(path[:depth]) for depth in range(len(path) - 1, 0, -1))
        return [queue for queue in found if queue is not None]

    def below(self, name: str) -> list[str]:
        """All descendants of a queue, parents before their children."""
        found = []
        waiting = [self.path(name) or ()]
        while waiting:
            for path in self.children(waiting.pop()):
                waiting.append(path)
                place = self._layout.placements[path]
                if place.queue is not None:
                    found.append(place.queue)
        return found

    def leaves(self, name: str) -> list[str]:
        """The leaf queues below one, by name."""
        return sorted(queue for queue in self.below(name) if self.is_leaf(queue))

    def in_force(self, name: str) -> Queue:
        """The queue whose state is effective for one: itself, or an ancestor."""
        return effective_state(self.queues[name], self.above(name))

    def is_open(self, name: str) -> bool:
        """Whether a queue and all its ancestors are Open."""
        return self.in_force(name).state is QueueState.OPEN

    def part(self, path: Path) -> Fraction:
        """The part of the cluster of a node by weight alone, whether or not its siblings have demand."""
        if not self._parts:
            self._parts[(ROOT,)] = Fraction(1)
            waiting: list[Path] = [(ROOT,)]
            while waiting:
                above = waiting.pop()
                weights = {child: self._layout.placements[child].weight for child in self.children(above)}
                total = sum(weights.values())
                self._parts |= {child: self._parts[above] * weight / total for child, weight in weights.items()}
                waiting += weights
        return self._parts[path]

    def refusals(self) -> Mapping[str, PlacementRefusal]:
        """Why some queues have no place, by name."""
        return self._refused
