"""The tree of queues, with the podgroup counts of each subtree.

``pumice.model.queue_tree`` places the queues, as everywhere else. An inner node that occurs only in the path of another
queue has no object; it is shown with the figures that the scheduler writes into the status of ``root``. A queue that
cannot be placed, for example because its parent does not exist, is shown after the tree, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

PODGROUP_PHASES = ("inqueue", "pending", "running", "unknown")
"""Podgroups by phase, as the columns show them."""

NO_WEIGHT = "-"
"""The weight of a queue that has no place, so that none counts."""


@dataclass(slots=True)
class QueueNode:
    """A queue in the tree."""

    name: str
    path: tuple[str, ...]
    weight: str
    """The weight in effect, which may differ from ``spec.weight``."""
    queue: Document | None
    counts: dict[str, int] = field(default_factory=dict)
    figures: Document = field(default_factory=dict)
    """Usage and entitlement, as in the status of a queue."""


@dataclass(frozen=True, slots=True)
class QueueTree:
    """All queues, parents before their children, siblings by name; and why some of them have no place."""

    nodes: list[QueueNode]
    unplaced: list[QueueNode]
    notes: list[str]

    def subtree(self, top: str) -> list[tuple[int, QueueNode]]:
        """The subtree of a queue with the depth of each node in it; empty if the queue does not exist."""
        named = [line for line in self.nodes if top in (line.name, "/".join(line.path))]
        found = next((line for line in named if line.queue is not None), named[0] if named else None)
        if found is None:
            return [(0, line) for line in self.unplaced if line.name == top]
        depth = len(found.path)
        return [(len(line.path) - depth, line) for line in self.nodes if line.path[:depth] == found.path]

    def all(self) -> list[tuple[int, QueueNode]]:
        """All nodes with their depths."""
        return [*((len(line.path) - 1, line) for line in self.nodes), *((0, line) for line in self.unplaced)]


def queue_tree(documents: Iterable[Document]) -> QueueTree:
    """The tree of these queues."""
    from pumice.model.queue_tree import build_queue_tree
    from pumice.model.specs import ROOT

    by_name = {_name(document): document for document in documents}
    if not by_name:
        return QueueTree([], [], [])
    described = {name: _queue_spec(name, document) for name, document in by_name.items()}
    layout = build_queue_tree(described)
    inner = _inner_nodes(by_name.get(ROOT))
    ordered = [
        QueueNode(
            place.queue or path[-1],
            path,
            _format_weight(place.weight),
            by_name.get(place.queue or ""),
            figures=inner.get("/".join(path), {}) if place.queue is None else _status(by_name.get(place.queue)),
        )
        for path, place in sorted(layout.placements.items())
    ]
    _sum_counts(ordered)
    strays = [
        replace(single_queue(document), weight=NO_WEIGHT)
        for name, document in sorted(by_name.items())
        if name not in layout.path_of
    ]
    notes = [f"queue {each.queue}: {each.field}: {each.message}" for each in layout.refusals if each.refused]
    return QueueTree(ordered, strays, notes)


def single_queue(document: Document) -> QueueNode:
    """A single queue, with the counts in its own status."""
    name = _name(document)
    return QueueNode(name, (name,), _weight(document), document, podgroup_counts(document), _status(document))


def parent_of(document: Document) -> str:
    """The queue above: that of the path, or the one that is named, or root."""
    from pumice.model.queue_tree import HIERARCHY
    from pumice.model.specs import ROOT

    if _name(document) == ROOT:
        return ""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    path = [ROOT, *str(annotations.get(HIERARCHY) or "").strip("/").split("/")]
    named = str(_spec(document).get("parent") or ROOT)
    return path[-2] if named == ROOT else named


def _sum_counts(lines: Sequence[QueueNode]) -> None:
    """A leaf has the counts of its object, a parent the sums of its children's."""
    parents = {line.path[:-1] for line in lines}
    sums: dict[tuple[str, ...], dict[str, int]] = {}
    for line in reversed(lines):  # children before their parents
        line.counts = (
            sums.get(line.path, dict.fromkeys(PODGROUP_PHASES, 0))
            if line.path in parents
            else podgroup_counts(line.queue)
        )
        above = sums.setdefault(line.path[:-1], dict.fromkeys(PODGROUP_PHASES, 0))
        for phase, number in line.counts.items():
            above[phase] += number


def podgroup_counts(document: Document | None) -> dict[str, int]:
    """The podgroup counts in the status of a queue."""
    status = _status(document)
    return {phase: int(status.get(phase) or 0) for phase in PODGROUP_PHASES}


def _inner_nodes(root: Document | None) -> dict[str, Document]:
    """By path: the figures of nodes without an object, from the status of ``root``."""
    listed = _status(root).get("innerNodes")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return {str(entry.get("path")): entry for entry in entries}


def _queue_spec(name: str, document: Document) -> Any:
    from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN
    from pumice.model.specs import Queue

    spec, metadata = _spec(document), document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return Queue(
        name,
        created=_timestamp_digits(metadata.get("creationTimestamp"))
        * 10**6,  # in whole seconds, the other with microseconds
        weight=int(spec.get("weight") or 1),
        parent=spec.get("parent") or None,
        path=annotations.get(HIERARCHY) or None,
        path_weights=annotations.get(HIERARCHY_WEIGHTS) or None,
        weights_written=_timestamp_digits(annotations.get(WEIGHTS_WRITTEN)),
    )


def _timestamp_digits(stamp: object) -> int:
    """The digits of a timestamp as one number, which orders moments of the same precision."""
    return int("".join(filter(str.isdecimal, str(stamp or 0))) or 0)


def _name(document: Document) -> str:
    return str((document.get("metadata") or {}).get("name") or "")


def _spec(document: Document | None) -> Document:
    found = (document or {}).get("spec")
    return found if isinstance(found, dict) else {}


def _status(document: Document | None) -> Document:
    found = (document or {}).get("status")
    return found if isinstance(found, dict) else {}


def _weight(document: Document) -> str:
    from pumice.model.queue_tree import HierarchyError, weight_in_force

    try:
        return _format_weight(weight_in_force(_queue_spec(_name(document), document)))
    except HierarchyError:
        return NO_WEIGHT


def _format_weight(weight: Any) -> str:
    return str(weight.numerator) if weight.denominator == 1 else f"{float(weight):g}"
