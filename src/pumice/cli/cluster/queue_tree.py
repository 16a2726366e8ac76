"""Queues as a tree: every queue below the one that it hangs under, with the counts of all that is below.

Where a queue stands is for ``lay_out`` of the model to say, as it is everywhere else. An inner node that only the path
of another queue names has no object; it is shown all the same. So is a queue that has no place, for example because its
parent is gone: after the others, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.kube.client import Document

COUNTS = ("inqueue", "pending", "running", "unknown")
"""Podgroups by phase, as the columns show them."""


@dataclass(slots=True)
class Line:
    """A queue in the tree."""

    name: str
    path: tuple[str, ...]
    weight: str
    queue: Document | None
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tree:
    """All queues, parents before their children, siblings by name; and why some of them have no place."""

    lines: list[Line]
    strays: list[Line]
    notes: list[str]

    def below(self, top: str) -> list[tuple[int, Line]]:
        """A queue and all below it, each with its depth below that queue. Nothing if there is no such queue."""
        found = next((line for line in self.lines if line.name == top), None)
        if found is None:
            return [(0, line) for line in self.strays if line.name == top]
        depth = len(found.path)
        return [(len(line.path) - depth, line) for line in self.lines if line.path[:depth] == found.path]

    def all(self) -> list[tuple[int, Line]]:
        """Everything, each with its depth."""
        return [*((len(line.path) - 1, line) for line in self.lines), *((0, line) for line in self.strays)]


def tree(documents: Iterable[Document]) -> Tree:
    """The tree of these queues."""
    from pumice.model.hierarchy import lay_out
    from pumice.model.objects import ROOT

    by_name = {_name(document): document for document in documents}
    if not by_name:
        return Tree([], [], [])
    described = {name: _described(name, document) for name, document in by_name.items()}
    layout = lay_out(described)
    ordered = [
        Line(
            place.queue or path[-1],
            path,
            _weight(by_name.get(ROOT)) if path == (ROOT,) else _number(place.weight),
            by_name.get(place.queue or ""),
        )
        for path, place in sorted(layout.places.items())
    ]
    _count(ordered)
    placed = {line.name for line in ordered}
    strays = [row(document) for name, document in sorted(by_name.items()) if name not in placed]
    notes = [f"queue {each.queue}: {each.field}: {each.message}" for each in layout.refusals if each.refused]
    return Tree(ordered, strays, notes)


def row(document: Document) -> Line:
    """A queue by itself, with what it says of itself."""
    name = _name(document)
    return Line(name, (name,), _weight(document), document, counts_of(document))


def parent_of(document: Document) -> str:
    """The queue above: the one that is named, or that of the path, or root."""
    from pumice.model.hierarchy import HIERARCHY
    from pumice.model.objects import ROOT

    annotations = (document.get("metadata") or {}).get("annotations") or {}
    path = [ROOT, *str(annotations.get(HIERARCHY) or "").strip("/").split("/")]
    return "" if _name(document) == ROOT else str(_spec(document).get("parent") or path[-2])


def _count(lines: Sequence[Line]) -> None:
    """A leaf has the counts of its object, a parent the sums of its children's."""
    parents = {line.path[:-1] for line in lines}
    sums: dict[tuple[str, ...], dict[str, int]] = {}
    for line in reversed(lines):  # children before their parents
        line.counts = sums.get(line.path, dict.fromkeys(COUNTS, 0)) if line.path in parents else counts_of(line.queue)
        above = sums.setdefault(line.path[:-1], dict.fromkeys(COUNTS, 0))
        for phase, number in line.counts.items():
            above[phase] += number


def counts_of(document: Document | None) -> dict[str, int]:
    """What a queue itself says."""
    status = (document or {}).get("status") or {}
    return {phase: int(status.get(phase) or 0) for phase in COUNTS}


def _described(name: str, document: Document) -> Any:
    from pumice.model.hierarchy import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN
    from pumice.model.objects import Queue

    spec, metadata = _spec(document), document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return Queue(
        name,
        created=_decimals(metadata.get("creationTimestamp")) * 10**6,  # in whole seconds, the other with microseconds
        weight=int(spec.get("weight") or 1),
        parent=spec.get("parent") or None,
        path=annotations.get(HIERARCHY) or None,
        path_weights=annotations.get(HIERARCHY_WEIGHTS) or None,
        weights_written=_decimals(annotations.get(WEIGHTS_WRITTEN)),
    )


def _decimals(stamp: object) -> int:
    """The digits of a timestamp as one number, which orders moments of the same precision."""
    return int("".join(filter(str.isdecimal, str(stamp or 0))) or 0)


def _name(document: Document) -> str:
    return str((document.get("metadata") or {}).get("name") or "")


def _spec(document: Document | None) -> Document:
    found = (document or {}).get("spec")
    return found if isinstance(found, dict) else {}


def _weight(document: Document | None) -> str:
    return str(_spec(document).get("weight") or 1)


def _number(weight: Any) -> str:
    return str(weight.numerator) if weight.denominator == 1 else f"{float(weight):g}"
