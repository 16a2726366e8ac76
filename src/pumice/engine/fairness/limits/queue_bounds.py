"""Bounds of queues: guarantee, real capability and deserved of every node of the share tree.

See docs/fairness.md, sections 6.1 to 6.3.

Derived from the Queue objects, from the root down:

- *guarantee*: reserved for the queue. A parent reserves at least the sum of its child queues' guarantees, whatever its
  own value.
- *real capability* (``ceiling``): the queue's capability, and at most its parent's real capability less the guarantees
  of the other children. The root's is the cluster's capacity. A queue without a capability inherits its limit that way.
- *deserved*: the value that the queue names, at least its guarantee, at most its real capability. Root deserves the
  cluster.

Inner nodes without a Queue object name nothing. Where a parent has promised its children more than exists (nodes were
lost), each queue keeps its own guarantee: free capacity on the nodes decides which is served first.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Items, Queue


def set_bounds(tree: ShareTree, queues: Mapping[str, Queue], capacity: list[int]) -> list[int]:
    """Set the bounds of every queue, and the claims that follow; returns the sum of all queues' guarantees."""
    nodes = tree.queues()
    for node in nodes[1:]:
        node.guarantee = _guarantee(_queue(node, queues), tree.width)
    reserved = reserved_for(nodes)
    promised = {node: [0] * tree.width for node in nodes}  # the guarantees of all children of a node together
    for node in nodes[1:]:
        assert node.parent is not None
        _add(promised[node.parent], reserved[node])
    tree.root.ceiling = list(capacity)
    tree.root.deserved = tuple((j, amount) for j, amount in enumerate(capacity) if amount)
    for node in nodes[1:]:
        assert node.parent is not None and node.parent.ceiling is not None  # parents come first
        queue = _queue(node, queues)
        node.ceiling = _real_capability(queue, node.parent.ceiling, reserved[node], promised[node.parent])
        deserved = _deserved(queue, node.ceiling) if queue is not None else None
        if deserved != node.deserved:
            node.deserved = deserved
            tree.mark(node)
    tree.reserve()
    return promised[tree.root]


def _queue(node: ShareNode, queues: Mapping[str, Queue]) -> Queue | None:
    return queues.get(node.queue_name) if node.queue_name is not None else None


def reserved_for(queues: list[ShareNode]) -> dict[ShareNode, list[int]]:
    """The reservation of each queue: its guarantee, or the sum of those below it where that is more."""
    reserved = {queue: [0] * len(queue.held) for queue in queues}
    for queue in reversed(queues):
        own = reserved[queue]
        if queue.guarantee is not None:
            own[:] = map(max, own, queue.guarantee)
        if queue.parent is not None:
            _add(reserved[queue.parent], own)
    return reserved


def _real_capability(queue: Queue | None, above: list[int], own: list[int], promised: list[int]) -> list[int]:
    real = [
        max(offered - (total - mine), min(mine, offered))
        for offered, mine, total in zip(above, own, promised, strict=True)
    ]
    for j, amount in queue.capability if queue is not None else ():
        real[j] = min(real[j], amount)
    return real


def _deserved(queue: Queue, ceiling: list[int]) -> Items | None:
    named = dict(queue.guarantee)
    for j, amount in queue.deserved:
        named[j] = max(amount, named.get(j, 0))
    return tuple((j, min(amount, ceiling[j])) for j, amount in sorted(named.items())) or None


def _guarantee(queue: Queue | None, width: int) -> list[int] | None:
    if queue is None or not any(amount for _, amount in queue.guarantee):
        return None
    vector = [0] * width
    for j, amount in queue.guarantee:
        vector[j] = amount
    return vector


def _add(total: list[int], more: list[int]) -> None:
    for j, amount in enumerate(more):
        total[j] += amount


def beyond_limits(
    tree: ShareTree, leaf: JobNode, more: Items, below: ShareNode | None = None
) -> tuple[ShareNode, int] | None:
    """The first queue on the way up in which a job cannot hold that much more, and the resource; None if it can.

    A queue and all its ancestors must stay within their real capability, and so must the claims on them: guarantees of
    other queues are not available. What a queue's own guarantee covers is already claimed, so it adds no claim. Amounts
    of 0 test the current holdings. The walk ends before ``below``. A queue whose ceiling is the whole cluster is not
    checked: node capacity limits it anyway.
    """
    queue: ShareNode | None = leaf.queue
    whole = tree.root.ceiling
    if whole is None:
        return None  # no bounds are set
    claiming = more if tree.reserving else ()
    while queue is not None and queue is not below:
        ceiling, held = queue.ceiling, queue.held
        assert ceiling is not None
        for j, amount in more:
            if held[j] + amount > ceiling[j] < whole[j]:
                return queue, j
        if claiming:
            claiming = _claiming(queue, claiming)
            for j, amount in claiming:
                claimed = max(queue.claims[j], queue.guarantee[j]) if queue.guarantee else queue.claims[j]
                if claimed > held[j] and claimed + amount > ceiling[j]:
                    return queue, j
        queue = queue.parent
    return None


def _claiming(queue: ShareNode, moved: Items) -> Items:
    """By how much the claims of a queue would grow; what its guarantee covers does not count."""
    guarantee, claims = queue.guarantee, queue.claims
    if guarantee is None:
        return moved
    after = ((j, claims[j], claims[j] + amount, guarantee[j]) for j, amount in moved)
    return tuple((j, new - max(old, reserved)) for j, old, new, reserved in after if new > reserved)
