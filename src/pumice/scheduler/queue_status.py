"""Computes the status of every Queue from the engine's state.

The status of a queue contains what it and its descendants hold and are entitled to, its effective weight and path, and
the number of podgroups by phase. Two kinds of tree nodes have no object of their own, so a Queue reports them: a leaf
queue lists its namespaces, and ``root`` lists the inner nodes that only the hierarchy annotations of other queues name.

A field without a value is None: in a merge patch that removes the field from the object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import ROOT, JobPhase

if TYPE_CHECKING:
    from pumice.engine.engine import Engine

Status = dict[str, Any]

MOST_LISTED = 500
"""At most this many namespaces of a queue, and inner nodes, are listed: those that hold most."""

FIELDS = (
    "weight",
    "path",
    "allocated",
    "entitled",
    "share",
    *(phase.value.lower() for phase in JobPhase),
    "namespaces",
    "innerNodes",
)
"""The fields that ``statuses`` sets in every queue."""


class _Count:
    """Counts below a node of the share tree that the node itself does not keep."""

    __slots__ = ("phases", "pods")

    def __init__(self) -> None:
        self.phases: Counter[JobPhase] = Counter()
        self.pods = 0

    def add(self, phase: JobPhase, pods: int) -> None:
        self.phases[phase] += 1
        self.pods += pods


def statuses(engine: Engine) -> dict[str, Status]:
    """The status of every Queue object, by its name. A queue that is not in the tree holds nothing."""
    queues = [node for node in engine.tree.root.walk() if node.kind is NodeKind.QUEUE]
    placed = {node.queue_name: node for node in queues if engine.context.sync.queue_of(node) is not None}
    below: dict[ShareNode, _Count] = {}
    elsewhere = {name: _Count() for name in engine.state.queues if name not in placed}
    for job in engine.state.jobs.values():
        leaf = engine.tree.jobs.get(job.key)
        node = leaf.parent if leaf is not None else None
        while node is not None:
            below.setdefault(node, _Count()).add(job.phase, job.held[PODS])
            node = node.parent
        if job.spec is not None and job.spec.queue in elsewhere:
            elsewhere[job.spec.queue].add(job.phase, 0)
    found = {str(name): _of_queue(engine, node, below) for name, node in placed.items()}
    if ROOT in found:
        inner = [node for node in queues if node.queue_name is None]
        found[ROOT]["innerNodes"] = _listed(engine, inner, below, "path")
    nothing = [0] * len(engine.state.capacity)
    for name, count in elsewhere.items():
        found[name] = dict.fromkeys(FIELDS) | _figures(engine, nothing, nothing, count)
    return found


def weight_shown(weight: float) -> float:
    """A weight as objects show it: 2 rather than 2.0."""
    exact = Fraction(weight)
    return exact.numerator if exact.denominator == 1 else weight


def _of_queue(engine: Engine, node: ShareNode, below: dict[ShareNode, _Count]) -> Status:
    namespaces = [child for child in node.children.values() if child.kind is NodeKind.NAMESPACE]
    return {
        **dict.fromkeys(FIELDS),
        "weight": weight_shown(node.weight),
        "path": node.path,
        **_figures(engine, node.held, node.entitled, below.get(node, _Count())),
        "namespaces": _listed(engine, namespaces, below, "name"),
    }


def _listed(engine: Engine, nodes: Iterable[ShareNode], below: dict[ShareNode, _Count], named: str) -> list[Status]:
    """The entries of nodes that have no object, sorted by name; None if there are none."""
    entries = [
        {
            named: getattr(node, named),
            "weight": weight_shown(node.weight),
            **_figures(engine, node.held, node.entitled, below.get(node, _Count())),
        }
        for node in nodes
    ]
    if len(entries) > MOST_LISTED:
        entries = sorted(entries, key=lambda entry: (-entry["share"], entry[named]))[:MOST_LISTED]
    return sorted(entries, key=lambda entry: str(entry[named])) or None  # type: ignore[return-value]  # see FIELDS


def _figures(engine: Engine, held: Sequence[int], entitled: Sequence[int], count: _Count) -> Status:
    registry = engine.state.registry
    # The share tree does not count pods, since shares exclude them: count those of the jobs below.
    amounts = [count.pods if j == PODS else amount for j, amount in enumerate(held)]
    return {
        # Zeros are written too: a merge patch keeps the keys that it does not name.
        "allocated": registry.format(amounts, zeros=True),
        # There is no entitlement to a number of pods.
        "entitled": {name: text for name, text in registry.format(entitled, zeros=True).items() if name != "pods"},
        "share": round(dominant_share(held, engine.state.capacity), 4),
        **{phase.value.lower(): count.phases[phase] for phase in JobPhase},
    }
