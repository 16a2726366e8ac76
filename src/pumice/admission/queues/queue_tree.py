"""The tree of queues as it is, or as it would be after a write.

``lay_out`` of the model says where every queue stands; a ``Tree`` answers what the rules ask about it. Who stands
above or below whom includes nodes without an object (inner segments of a path): those are walked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from pumice.model.queue_amounts import QueueAmounts
from pumice.model.queue_states import effective_state
from pumice.model.queue_tree import Path, PlacementRefusal, build_queue_tree
from pumice.model.specs import ROOT, Queue, QueueState


class QueueTree:
    """Where the queues stand. A queue may get another state while the tree lasts, and nothing else."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues
        self._layout = build_queue_tree(queues)
        self._refused = {refusal.queue: refusal for refusal in self._layout.refusals if refusal.refused}
        self._below: dict[Path, list[Path]] = {}
        self._parts: dict[Path, Fraction] = {}  # all of them, once anybody has asked for one
        self.amounts = QueueAmounts(self._layout.placements, queues)
        for path in self._layout.placements:
            if len(path) > 1:
                self._below.setdefault(path[:-1], []).append(path)

    def changed(self, queues: Iterable[Queue]) -> QueueTree:
        """The tree with these queues in it, in place of those of the same names."""
        return QueueTree({**self.queues, **{queue.name: queue for queue in queues}})

    def path(self, name: str) -> Path | None:
        """Where a queue stands; None if it is not there, or contradicts the others."""
        return self._layout.path_of.get(name)

    def at(self, path: Path) -> Queue | None:
        """The queue that stands somewhere; None for a node without an object."""
        place = self._layout.placements.get(path)
        return None if place is None or place.queue is None else self.queues.get(place.queue)

    def children(self, path: Path) -> list[Path]:
        """The nodes right below one."""
        return self._below.get(path, [])

    def is_leaf(self, name: str) -> bool:
        """Whether a queue takes jobs: it stands somewhere, and nothing stands below it. Root never does."""
        path = self.path(name)
        return path is not None and name != ROOT and path not in self._below

    def above(self, name: str) -> list[Queue]:
        """The queues above one, nearest first."""
        path = self.path(name) or ()
        found = (self.at(path[:depth]) for depth in range(len(path) - 1, 0, -1))
        return [queue for queue in found if queue is not None]

    def below(self, name: str) -> list[str]:
        """All queues below one, parents before their children."""
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
        """The queues below one that take jobs, by name."""
        return sorted(queue for queue in self.below(name) if self.is_leaf(queue))

    def in_force(self, name: str) -> Queue:
        """The queue whose state counts for one: itself, or one above."""
        return effective_state(self.queues[name], self.above(name))

    def is_open(self, name: str) -> bool:
        """Whether a queue takes and starts jobs, and so does everybody above it."""
        return self.in_force(name).state is QueueState.OPEN

    def part(self, path: Path) -> Fraction:
        """The part of the cluster that a node has by weight alone, whether its siblings want anything or not."""
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
