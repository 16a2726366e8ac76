"""Per-level sums beside the holdings: claims, and the request, inqueue and elastic counters of jobs.

A queue *claims* from its parent its jobs' holdings plus its child queues' claims, or its guarantee where that is more.
So guaranteed capacity counts as used at every level above, and no other queue can have it. A start or an end changes
the claims of one path, and only up to the first guarantee that covers the difference.

``request``, ``inqueue`` and ``elastic`` are plain sums of the counters of each job (see ``usage_ledger``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.fairness.share_tree.shared_vectors import shared_counters
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode


def claim(queue: ShareNode | None, moved: Items) -> None:
    """Add this much to the holdings of a queue's jobs (negative: subtract) and update the claims."""
    while queue is not None and moved:
        claims, guarantee = queue.claims, queue.guarantee
        if guarantee is None:
            for j, amount in moved:
                claims[j] += amount
        else:
            further = []
            for j, amount in moved:
                before, reserved = claims[j], guarantee[j]
                after = claims[j] = before + amount
                if before > reserved or after > reserved:
                    further.append((j, max(after, reserved) - max(before, reserved)))
            moved = tuple(further)
        queue = queue.parent


def claim_anew(queues: list[ShareNode]) -> None:
    """Recompute all claims from the holdings after guarantees changed. Parents come first."""
    for queue in queues:
        queue.claims = list(queue.held)
    for queue in reversed(queues):
        if queue.parent is not None:
            above = queue.parent.claims
            claimed = map(max, queue.claims, queue.guarantee or queue.claims)
            for j, (amount, held) in enumerate(zip(claimed, queue.held, strict=True)):
                above[j] += amount - held


def count_job(leaf: JobNode, request: list[int], inqueue: list[int], elastic: list[int]) -> None:
    """Set the counters of a job and carry the difference up to the root."""
    new, old = (request, inqueue, elastic), leaf.counters
    if new == old:
        return
    moved = [
        (j, *(after - before for after, before in zip(afters, befores, strict=True)))
        for j, (afters, befores) in enumerate(zip(zip(*new, strict=True), zip(*old, strict=True), strict=True))
        if afters != befores
    ]
    leaf.counters = shared_counters(tuple(request), tuple(inqueue), tuple(elastic))
    node = leaf.parent
    while node is not None:
        for j, asked, promised, spare in moved:
            node.request[j] += asked
            node.inqueue[j] += promised
            node.elastic[j] += spare
        node = node.parent
