"""How queues are printed: the tree with its branches, or rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from pumice.cli.cluster.object_printer import Row, state
from pumice.cli.cluster.queue_tree import COUNTS, Line, parent_of, row, tree
from pumice.cli.cluster.resource_quantities import readable
from pumice.cli.text_table import Column

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource

NAME_WIDTH = 15
UNKNOWN_SHARE = "-"
MOST_NAMESPACES = 5
"""So many namespaces of a queue are named."""

Which = Literal["tree", "list", "children", "names"]


class QueueView:
    """Queues, chosen by the names given.

    ``tree``: a queue and all below it, with branches, or everything; ``list``: all of them; ``children``: those right
    below one; ``names``: just these.
    """

    state_column: int

    def __init__(self, which: Which, names: Sequence[str] = (), *, wide: bool = False) -> None:
        self.names = names
        self.known: list[str] = []  # all that there are, as of the last look
        self.notes: list[str] = []  # what is wrong with some of them
        self._which = which
        self._wide = wide
        numbers = [Column(phase.capitalize(), right=True) for phase in COUNTS]
        flat = [] if which == "tree" else [Column("Parent")]
        self.columns = [
            Column("Name", least=NAME_WIDTH),
            *flat,
            Column("Weight", right=True),
            Column("State", right=True, room=len("Deleting")),
            *numbers,
            *(_WIDE if wide else ()),
        ]
        self.state_column = 2 + len(flat)

    @property
    def resource(self) -> Resource[Any]:
        """Queues."""
        from pumice.kube.resources import QUEUES

        return QUEUES

    def rows(self, objects: Iterable[Document]) -> Mapping[str, Row]:
        """The lines, in order, by where the queues stand: two inner nodes may have one name."""
        documents = list(objects)
        self.known = [str(document["metadata"]["name"]) for document in documents]
        return {
            "/".join(line.path): Row(self._cells(depth, line), line.queue) for depth, line in self._chosen(documents)
        }

    def _chosen(self, documents: Sequence[Document]) -> list[tuple[int, Line]]:
        if self._which == "tree":
            found = tree(documents)
            self.notes = found.notes
            return [pair for name in self.names for pair in found.below(name)] if self.names else found.all()
        by_name = dict(sorted(zip(self.known, documents, strict=True)))
        if self._which == "names":
            by_name = {name: by_name[name] for name in self.names if name in by_name}
        elif self._which == "children":
            by_name = {name: found for name, found in by_name.items() if parent_of(found) in self.names}
        return [(0, row(document)) for document in by_name.values()]

    def _cells(self, depth: int, line: Line) -> list[str]:
        branch = "|  " * (depth - 1) + "|--" if depth else ""
        cells = [click.style(branch, dim=True) + line.name if branch else line.name]
        if self._which != "tree":
            cells.append(parent_of(line.queue or {}))
        cells += [line.weight, state(state_of(line.queue)), *(str(line.counts[phase]) for phase in COUNTS)]
        return [*cells, *_wide_cells(line)] if self._wide else cells


_WIDE = (
    Column("Share", right=True),
    Column("Allocated"),
    Column("Entitled"),
    Column("Deserved"),
    Column("Guarantee"),
    Column("Capability"),
    Column("UserLimits"),
    Column("Namespaces"),
)


def _wide_cells(line: Line) -> list[str]:
    spec, figures = (line.queue or {}).get("spec") or {}, line.figures
    return [
        _share(figures),
        _held(figures.get("allocated")),
        _held(figures.get("entitled")),
        readable(spec.get("deserved")),
        readable((spec.get("guarantee") or {}).get("resource")),
        readable(spec.get("capability")),
        user_limits(spec),
        _namespaces(figures.get("namespaces")),
    ]


def _share(figures: Document) -> str:
    share = figures.get("share")
    return percent(float(share)) if isinstance(share, int | float) else UNKNOWN_SHARE


def user_limits(spec: Document) -> str:
    """What one user of a queue may have: the two fields of its spec, those that are given."""
    least, factor = spec.get("minUserLimitPercent"), spec.get("userLimitFactor")
    parts = [
        *([f"min={least}%"] if least is not None else []),
        *([f"factor={factor:g}"] if isinstance(factor, int | float) else []),
    ]
    return ",".join(parts) or "-"


def _namespaces(listed: object) -> str:
    """Namespaces with jobs in a queue, each with its share of the cluster; of many those that hold most."""
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    entries.sort(key=lambda entry: (-float(entry.get("share") or 0), str(entry.get("name"))))
    shown = ",".join(f"{entry.get('name')}={_share(entry)}" for entry in entries[:MOST_NAMESPACES])
    more = len(entries) - MOST_NAMESPACES
    return f"{shown},{more} more" if more > 0 else shown or "-"


def _held(amounts: object) -> str:
    """What a queue holds or is entitled to. Pods are counted for every queue and say little: they are left out."""
    if isinstance(amounts, Mapping):
        amounts = {name: amount for name, amount in amounts.items() if name != "pods"}
    return readable(amounts, zeros=False)


def percent(share: float) -> str:
    """A part of the cluster."""
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


def state_of(queue: Document | None) -> str:
    """Whether a queue takes jobs. One that says nothing does; an inner node without an object has no say."""
    if queue is None:
        return "-"
    if (queue.get("metadata") or {}).get("deletionTimestamp"):
        return "Deleting"
    return str((queue.get("status") or {}).get("state") or "Open")
