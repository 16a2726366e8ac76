"""A share tree under the rule ``paper``, driven by hand: jobs come and go, tasks start and end."""

from __future__ import annotations

from collections.abc import Mapping

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.orders.published_hdrf import PublishedHdrfOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.state.job import Job
from pumice.model.specs import Items

GPU, DISK = 3, 4
PLACES = (CPU, MEMORY, GPU, DISK)
WIDTH = 5


class World:
    """The tree, its order, and the tasks that run in it."""

    def __init__(self, capacity: Mapping[int, int]) -> None:
        self.capacity = [capacity.get(j, 0) for j in range(WIDTH)]
        self.tree = ShareTree(WIDTH)
        self.order = PublishedHdrfOrder(self.tree, self.capacity)
        self.groups: list[ShareNode] = [self.tree.root]
        self.leaves: list[JobNode] = []
        self.running: list[tuple[JobNode, Items, int]] = []
        self.count = 0  # names and ages, in the order of declaration
        self.clock = 0

    def group(self, parent: ShareNode | None = None, weight: float = 1.0, kind: NodeKind = NodeKind.QUEUE) -> ShareNode:
        self.count += 1
        name = f"group{self.count}"
        node = self.tree.child(parent or self.tree.root, kind, name)
        node.weight, node.rank = weight, (self.count, kind, name)
        self.groups.append(node)
        return node

    def job(
        self,
        parent: ShareNode,
        ask: Items | None,
        able: bool = True,
        *,
        holds: Items = (),
        weight: float = 1.0,
        name: str = "",
    ) -> JobNode:
        self.count += 1
        leaf = self.tree.add_job(Job(name or f"job{self.count}"), parent)
        leaf.weight, leaf.rank = weight, (self.count, NodeKind.JOB, leaf.name)
        self.leaves.append(leaf)
        self.order.set_candidate(leaf, ask, able)
        if holds:
            self.start(leaf, holds)
        return leaf

    def start(self, leaf: JobNode, items: Items) -> None:
        self.clock += 1
        self.order.charge(leaf, items, self.clock)
        self.running.append((leaf, items, self.clock))

    def end(self, index: int) -> tuple[JobNode, Items]:
        leaf, items, stamp = self.running.pop(index)
        self.order.uncharge(leaf, items, stamp)
        return leaf, items

    def remove(self, leaf: JobNode) -> None:
        for index in reversed([i for i, (who, _, _) in enumerate(self.running) if who is leaf]):
            self.end(index)
        self.order.set_candidate(leaf, None, False)
        self.tree.remove(leaf)
        self.leaves.remove(leaf)
