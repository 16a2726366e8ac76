"""Detect inconsistent queue trees, whose amounts cannot all hold (docs/fairness.md, section 6.7).

A violation is attributed to a queue; no task may start in that queue or below it. Amounts are checked by the rules of
admission (``model.queue_amounts``). Root is exempt: the cluster's size changes with its nodes, and losing a node is no
configuration error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kubebase.resource_vector import Registry
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.queue_amounts import QueueAmounts
from pumice.model.queue_tree import build_queue_tree
from pumice.model.specs import JobPhase, Queue


def violations(tree: ShareTree, queues: Mapping[str, Queue], registry: Registry) -> dict[str, str]:
    """The queues in violation, by name, and the reason; the first one if there are several."""
    found: dict[str, str] = {}
    for excess in QueueAmounts(build_queue_tree(queues).placements, queues).excesses():
        if excess.clamped:
            continue
        # Of two contradicting queues report the parent: its error may affect everything below it.
        found.setdefault(excess.above or excess.queue, excess.say(registry))
    nodes = [node for node in tree.queues()[1:] if node.queue_name in queues]
    for node, stray in _strays(nodes):
        assert node.queue_name is not None
        found.setdefault(node.queue_name, stray)
    return found


def clamped(queues: Mapping[str, Queue], registry: Registry) -> dict[str, str]:
    """The queues whose deserved is clamped to their guarantee or capability, by name, and why."""
    excesses = QueueAmounts(build_queue_tree(queues).placements, queues).excesses()
    return {excess.queue: excess.say(registry) for excess in excesses if excess.clamped}


def _strays(described: Iterable[ShareNode]) -> Iterator[tuple[ShareNode, str]]:
    """Queues with jobs that also have child queues."""
    for node in described:
        kinds = {child.kind for child in node.children.values()}
        if NodeKind.QUEUE in kinds and len(kinds) > 1:
            own = [child for child in node.children.values() if child.kind is not NodeKind.QUEUE]
            jobs = [leaf for child in own for leaf in child.walk() if isinstance(leaf, JobNode)]
            strays = [leaf.job.key for leaf in jobs if leaf.job.phase is not JobPhase.COMPLETED]
            if strays:
                yield node, f"job {min(strays)} is in it, but a queue with queues below it takes no jobs"
