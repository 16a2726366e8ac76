"""What changed since the last cycle, so that a cycle repeats only work whose result can differ.

Events and transactions record changes here; ``prepare_cycle`` reads them, does the work and clears them. Actions need
not set any flag: ``Transaction.commit`` does.
"""

from __future__ import annotations


class ChangeTracker:
    """Dirty flags and version counters of one engine."""

    __slots__ = ("capacity", "demand", "freed_nodes", "pods", "stray_jobs", "target_version", "usage", "version")

    def __init__(self) -> None:
        self.demand = True  #: demand, weights, limits or the tree changed: targets must be solved again
        self.usage = True  #: what jobs hold changed: integer targets must be rounded again
        self.pods = False  #: a pod was placed, removed or terminated: placements that failed may work now
        self.stray_jobs = False  #: a job in a queue that accepts no jobs was added, changed or removed
        self.freed_nodes: dict[int, None] = {}  #: indices in the node table where capacity became free
        self.capacity: list[int] = []  #: the cluster's capacity when targets were solved last
        self.version = 0  #: grows whenever a failed preemption attempt could succeed
        self.target_version = 0  #: how often targets were solved

    def usage_changed(self) -> None:
        """Record that a transaction placed or evicted pods: integer targets may differ in the next cycle."""
        self.usage = True
        self.pods = True
        self.version += 1

    def clear(self) -> None:
        """Reset the flags after the work they ask for is done."""
        self.demand = self.usage = self.pods = False
        self.freed_nodes.clear()
