"""Trees of queues with bounds, by hand: each queue has a job, and amounts are of cpu and memory."""

from __future__ import annotations

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.limits.queue_bounds import beyond_limits, set_bounds
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.state.job import Job
from pumice.model.specs import Items, Queue

WIDTH = 4


class Forest:
    """Queues of a tree and what is held in them."""

    def __init__(self, *queues: Queue, capacity: tuple[int, int] = (100, 100)) -> None:
        self.tree = ShareTree(WIDTH)
        self.queues = {queue.name: queue for queue in queues}
        self.node: dict[str, ShareNode] = {"root": self.tree.root}
        for queue in queues:
            node = self.tree.child(self.node[queue.parent or "root"], NodeKind.QUEUE, queue.name)
            node.queue_name = queue.name
            self.node[queue.name] = node
        self.resize(*capacity)

    def resize(self, cpu: int, memory: int) -> None:
        set_bounds(self.tree, self.queues, [cpu, memory, 10, 0])

    def job(self, queue: str) -> JobNode:
        return self.tree.jobs.get(queue) or self.tree.add_job(Job(queue), self.node[queue])

    def hold(self, queue: str, cpu: int, memory: int = 0) -> None:
        self.tree.charge(self.job(queue), ((CPU, cpu), (MEMORY, memory)), 1)

    def refused(self, queue: str, cpu: int, memory: int = 0) -> str | None:
        """The queue that is in the way of so much more."""
        lack = beyond_limits(self.tree, self.job(queue), ((CPU, cpu), (MEMORY, memory)))
        return lack[0].name if lack is not None else None

    def ceiling(self, queue: str) -> tuple[int, int]:
        ceiling = self.node[queue].ceiling
        assert ceiling is not None
        return ceiling[CPU], ceiling[MEMORY]

    def deserved(self, queue: str) -> dict[int, int]:
        return dict(self.node[queue].deserved or ())


def cpu(amount: int) -> Items:
    """So much cpu."""
    return ((CPU, amount),)
