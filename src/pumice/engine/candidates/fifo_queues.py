"""FIFO queues: with ``dequeueStrategy: fifo`` a job that does not fit blocks the jobs of its queue behind it.

The head is the first job, by class and age, that has something to start. No other job of that queue may start anything.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from pumice.engine.fairness.share_tree.share_node import JobNode, Rank, ShareNode
from pumice.engine.state.cluster_state import ClusterState

Position = tuple[tuple[int, ...], Rank]


class FifoQueues:
    """The waiting jobs of every FIFO queue, in order."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.enabled = False  # whether any queue is FIFO
        self._lines: dict[ShareNode, list[tuple[Position, JobNode]]] = {}
        self._places: dict[JobNode, tuple[ShareNode, Position]] = {}

    def is_fifo(self, leaf: JobNode) -> bool:
        """Whether a job's queue is FIFO."""
        if not self.enabled:
            return False
        queue = self._state.queues.get(leaf.queue.queue_name or "")
        return queue is not None and queue.fifo

    @property
    def in_use(self) -> bool:
        """Whether any queue is FIFO, or was and still has jobs in line."""
        return self.enabled or bool(self._places)

    def is_head(self, leaf: JobNode) -> bool:
        """Whether no job of its FIFO queue is ahead of this one."""
        place = self._places.get(leaf)
        return place is None or self._lines[place[0]][0][1] is leaf

    def update_heads(self, leaf: JobNode) -> list[JobNode]:
        """Update a job's position after a change; returns the other jobs that became or ceased to be head."""
        if not self.in_use:
            return []
        old = self._places.get(leaf)
        wanted = leaf.unit is not None and self.is_fifo(leaf)
        new = (leaf.queue, (leaf.before, leaf.rank)) if wanted else None
        if new == old:
            return []
        queues = {place[0] for place in (old, new) if place is not None}
        heads = {line[0][1] for queue in queues if (line := self._lines.get(queue))}
        if old is not None:
            line = self._lines[old[0]]
            del line[bisect_left(line, old[1], key=_position)]
            del self._places[leaf]
            if not line:
                del self._lines[old[0]]
        if new is not None:
            insort(self._lines.setdefault(new[0], []), (new[1], leaf), key=_position)
            self._places[leaf] = new
        after = {line[0][1] for queue in queues if (line := self._lines.get(queue))}
        return sorted((head for head in heads ^ after if head is not leaf), key=lambda head: head.rank)


def _position(entry: tuple[Position, JobNode]) -> Position:
    return entry[0]
