"""The table of queues: the tree with its branches, or a flat list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from pumice.cli.cluster.object_printer import TableRow, styled_state
from pumice.cli.cluster.queue_tree import PODGROUP_PHASES, QueueNode, parent_of, queue_tree, single_queue
from pumice.cli.cluster.resource_quantities import format_quantities
from pumice.cli.text_table import Column

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource

NAME_WIDTH = 15
UNKNOWN_SHARE = "-"
MAX_NAMESPACES = 5
"""So many namespaces of a queue are named."""

Selection = Literal["tree", "list", "children", "names"]


class QueueTable:
    """A selection of queues.

    ``tree``: the subtrees of the named queues, or the whole tree; ``list``: all queues; ``children``: the children of a
    queue; ``names``: the named queues.
    """

    state_column: int

    def __init__(self, which: Selection, names: Sequence[str] = (), *, wide: bool = False) -> None:
        self.names = names
        self.existing_names: list[str] = []  # the names of all queues in the last list
        self.notes: list[str] = []  # what is wrong with some of them
        self._which = which
        self._wide = wide
        numbers = [Column(phase.capitalize(), align_right=True) for phase in PODGROUP_PHASES]
        flat = [] if which == "tree" else [Column("Parent")]
        self.columns = [
            Column("Name", min_width=NAME_WIDTH),
            *flat,
            Column("Weight", align_right=True),
            Column("State", align_right=True, watch_width=len("Deleting")),
            *numbers,
            *(_WIDE if wide else ()),
        ]
        self.state_column = 2 + len(flat)

    @property
    def resource(self) -> Resource[Any]:
        """Queues."""
        from pumice.kube.resources import QUEUES

        return QUEUES

    def rows(self, objects: Iterable[Document]) -> Mapping[str, TableRow]:
        """The rows by path, because two inner nodes may have the same name."""
        documents = list(objects)
        self.existing_names = [str(document["metadata"]["name"]) for document in documents]
        return {
            "/".join(line.path): TableRow(self._cells(depth, line), line.queue)
            for depth, line in self._chosen(documents)
        }

    def _chosen(self, documents: Sequence[Document]) -> list[tuple[int, QueueNode]]:
        if self._which == "tree":
            found = queue_tree(documents)
            self.notes = found.notes
            return [pair for name in self.names for pair in found.subtree(name)] if self.names else found.all()
        by_name = dict(sorted(zip(self.existing_names, documents, strict=True)))
        if self._which == "names":
            by_name = {name: by_name[name] for name in self.names if name in by_name}
        elif self._which == "children":
            by_name = {name: found for name, found in by_name.items() if parent_of(found) in self.names}
        return [(0, single_queue(document)) for document in by_name.values()]

    def _cells(self, depth: int, line: QueueNode) -> list[str]:
        branch = "|  " * (depth - 1) + "|--" if depth else ""
        cells = [click.style(branch, dim=True) + line.name if branch else line.name]
        if self._which != "tree":
            cells.append(parent_of(line.queue or {}))
        cells += [
            line.weight,
            styled_state(state_of(line.queue)),
            *(str(line.counts[phase]) for phase in PODGROUP_PHASES),
        ]
        return [*cells, *_wide_cells(line)] if self._wide else cells


_WIDE = (
    Column("Share", align_right=True),
    Column("Allocated"),
    Column("Entitled"),
    Column("Deserved"),
    Column("Guarantee"),
    Column("Capability"),
    Column("UserLimits"),
    Column("Namespaces"),
)


def _wide_cells(line: QueueNode) -> list[str]:
    spec, figures = (line.queue or {}).get("spec") or {}, line.figures
    return [
        _share(figures),
        _format_usage(figures.get("allocated")),
        _format_usage(figures.get("entitled")),
        format_quantities(spec.get("deserved")),
        format_quantities((spec.get("guarantee") or {}).get("resource")),
        format_quantities(spec.get("capability")),
        user_limits(spec),
        _namespaces(figures.get("namespaces")),
    ]


def _share(figures: Document) -> str:
    share = figures.get("share")
    return format_share(float(share)) if isinstance(share, int | float) else UNKNOWN_SHARE


def user_limits(spec: Document) -> str:
    """The user limits in the spec of a queue."""
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
    shown = ",".join(f"{entry.get('name')}={_share(entry)}" for entry in entries[:MAX_NAMESPACES])
    more = len(entries) - MAX_NAMESPACES
    return f"{shown},{more} more" if more > 0 else shown or "-"


def _format_usage(amounts: object) -> str:
    """Usage or entitlement of a queue. Pods are omitted: all queues have them, and they say little."""
    if isinstance(amounts, Mapping):
        amounts = {name: amount for name, amount in amounts.items() if name != "pods"}
    return format_quantities(amounts, zeros=False)


def format_share(share: float) -> str:
    """A part of the cluster."""
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


def state_of(queue: Document | None) -> str:
    """The state of a queue; Open before the controller has set one, ``-`` for an inner node without an object."""
    if queue is None:
        return "-"
    if (queue.get("metadata") or {}).get("deletionTimestamp"):
        return "Deleting"
    return str((queue.get("status") or {}).get("state") or "Open")
