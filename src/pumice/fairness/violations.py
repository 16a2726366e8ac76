"""What is wrong with a tree of queues, so that its numbers can't all be meant (fairness.md 6).

A violation stands at a queue; nothing may start in that queue nor below it. What a queue does not name constrains
nobody: then the next queue above that names it does. Nothing is judged against root: the cluster's size changes with
its nodes, and the loss of a node is nobody's mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pumice.fairness.tree import JobNode, Kind, ShareNode, ShareTree
from pumice.model.objects import Items, JobPhase, Queue
from pumice.model.resources import Registry

Amounts = Mapping[int, int]
Found = Iterator[tuple[ShareNode, str]]


def violations(tree: ShareTree, queues: Mapping[str, Queue], registry: Registry) -> dict[str, str]:
    """The queues at which something is wrong, by name, and what; of several things the first."""
    nodes = tree.queues()
    described = {node: queues[node.object] for node in nodes[1:] if node.object is not None and node.object in queues}

    def named(items: Mapping[ShareNode, Items]) -> dict[ShareNode, Amounts]:
        return {node: dict(items.get(node, ())) for node in nodes}

    guarantee = named({node: queue.guarantee for node, queue in described.items()})
    deserved = named({node: queue.deserved for node, queue in described.items()})
    capability = named({node: queue.capability for node, queue in described.items()})
    say = _Wording(registry)
    found: dict[str, str] = {}
    for node, what in (
        *_sums(nodes, guarantee, guarantee, say, "guarantee", "guarantee"),
        *_sums(nodes, deserved, deserved, say, "deserved", "deserved"),
        *_sums(nodes, guarantee, capability, say, "guarantee", "capability"),
        *_capabilities(nodes, capability, say),
        *_strays(described),
    ):
        found.setdefault(described[node].name, what)
    return found


class _Wording:
    """Amounts as people write them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __call__(self, word: str, j: int, amount: int) -> str:
        return f"{word} {self._registry.names[j]} {self._registry.format_amount(j, amount)}"


def _sums(
    nodes: list[ShareNode],
    wanted: Mapping[ShareNode, Amounts],
    offered: Mapping[ShareNode, Amounts],
    say: _Wording,
    want: str,
    offer: str,
) -> Found:
    """Parents whose child queues want more, together, than the parent offers."""
    # What a subtree wants: what its queue names or, where it names nothing, what those below it want.
    together: dict[ShareNode, dict[int, int]] = {node: {} for node in nodes}
    for node in reversed(nodes):
        for j, most in sorted(offered[node].items()):
            if together[node].get(j, 0) > most:
                wants = say(want, j, together[node][j])
                yield node, f"the queues below it have {wants} together, more than its {say(offer, j, most)}"
        if node.parent is not None:
            above = together[node.parent]
            for j, amount in {**together[node], **wanted[node]}.items():
                above[j] = above.get(j, 0) + amount


def _capabilities(nodes: list[ShareNode], capability: Mapping[ShareNode, Amounts], say: _Wording) -> Found:
    """Queues below which one may hold more than the queue itself."""
    for node in nodes:
        for j, limit in sorted(capability[node].items()):
            above = next((queue for queue in _above(node) if j in capability[queue]), None)
            if above is not None and limit > capability[above][j]:
                most = say("capability", j, capability[above][j])
                yield above, f"queue {node.object} below it has {say('capability', j, limit)}, more than its {most}"


def _strays(described: Iterable[ShareNode]) -> Found:
    """Queues with jobs that have queues below them."""
    for node in described:
        kinds = {child.kind for child in node.children.values()}
        if Kind.QUEUE in kinds and len(kinds) > 1:
            own = [child for child in node.children.values() if child.kind is not Kind.QUEUE]
            jobs = [leaf for child in own for leaf in child.walk() if isinstance(leaf, JobNode)]
            strays = [leaf.job.key for leaf in jobs if leaf.job.phase is not JobPhase.COMPLETED]
            if strays:
                yield node, f"job {min(strays)} is in it, but a queue with queues below it takes no jobs"


def _above(node: ShareNode) -> Iterator[ShareNode]:
    while node.parent is not None:
        node = node.parent
        yield node
