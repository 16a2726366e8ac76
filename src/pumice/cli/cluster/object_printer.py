"""Print objects as a table, JSON, YAML or names, once or whenever they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from pumice.cli.terminal import echo, echo_values, print_error
from pumice.cli.text_table import Column, Table

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document, Query
    from pumice.kube.resource_name import ResourceName
    from pumice.kube.watch.sync_watch import CollectionWatch

OUTPUT_FORMATS = ("table", "wide", "json", "yaml", "name")
STATE_COLORS = {
    "Running": "green",
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Restarting": "yellow",
    "Closing": "yellow",
    "Closed": "yellow",
    "Paused": "yellow",
    "Aborting": "yellow",
    "Aborted": "yellow",
    "Deleting": "red",
    "Deleted": "red",
    "Failed": "red",
    "Terminating": "red",
    "Terminated": "red",
    "Unknown": "red",
}

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TableRow:
    """A line of a table, and the object behind it, if there is one."""

    cells: Sequence[str]
    document: Document | None

    def as_deleted(self, place: int) -> TableRow:
        """The same line for an object that is no longer there; ``place`` is the column with its state."""
        cells = list(self.cells)
        cells[place] = styled_state("Deleted")
        return TableRow(cells, self.document)


class ObjectTable(Protocol):
    """Which objects of a collection are shown, and how."""

    @property
    def resource(self) -> ResourceName:
        """The collection."""

    @property
    def columns(self) -> Sequence[Column]:
        """The table."""

    @property
    def state_column(self) -> int:
        """The index of the column with the state of an object."""

    def rows(self, objects: Iterable[Document]) -> Mapping[str, TableRow]:
        """The lines, in order, each under a name of its own."""


def output_option(function: Function) -> Function:
    """The option that selects the output format."""
    return click.option(
        "-o", "--output", type=click.Choice(OUTPUT_FORMATS), default="table", show_default=True, help="Output format."
    )(function)


def watch_option(function: Function) -> Function:
    """The option that watches for changes."""
    return click.option("-w", "--watch", is_flag=True, help="Watch the objects and print changes.")(function)


def print_objects(
    client: Client, path: str, query: Query | None, view: ObjectTable, output: str, *, watch: bool, alone: bool = False
) -> int:
    """Print the objects of a collection, and with ``watch`` their changes until interrupted; returns their number.

    With ``alone``, a single object is printed as itself, not as a list of one.
    """
    if not watch:
        rows = view.rows(client.list(path, query).items)
        _print(rows, view, output, alone=alone)
        return len(rows)
    from pumice.kube.watch.sync_watch import CollectionWatch

    following = CollectionWatch(
        client, path, query, cut=lambda why: echo(f"watch interrupted: {why}; retrying", err=True)
    )
    _watch_objects(following, view, output)
    return len(following.objects)


def _print(rows: Mapping[str, TableRow], view: ObjectTable, output: str, *, alone: bool) -> None:
    documents = [row.document for row in rows.values() if row.document is not None]
    if output in ("json", "yaml"):
        whole = [full_object(document, view.resource) for document in documents]
        single = alone and len(whole) == 1
        echo_values(whole[0] if single else {"apiVersion": "v1", "kind": "List", "items": whole}, output)
    elif output == "name":
        for document in documents:
            echo(object_name(document, view.resource))
    elif rows:
        table = Table(view.columns)
        table.widen(row.cells for row in rows.values())
        echo(table.heading())
        for row in rows.values():
            echo(table.line(row.cells))


def _watch_objects(following: CollectionWatch, view: ObjectTable, output: str) -> None:
    """Print all objects, then every change; of a table, only rows whose text has changed."""
    shown = dict(view.rows(following.objects.values()))
    stream = _WatchPrinter(view, output)
    stream.print_first(shown.values())
    for change in following.changes():
        rows = view.rows(following.objects.values())
        for key in [key for key in shown if key not in rows]:
            stream.print_row(shown.pop(key).as_deleted(view.state_column))
        for key, row in rows.items():
            before = shown.get(key)
            differs = before is None or stream.differs(before, row)
            if differs if output in ("table", "wide") else row.document is change.object:
                stream.print_row(row)
            shown[key] = row


class _WatchPrinter:
    """Prints rows one after the other while objects are watched."""

    def __init__(self, view: ObjectTable, output: str) -> None:
        self._view = view
        self._output = output
        self._table = Table(view.columns, room=True)
        self._compared_columns = [i for i, column in enumerate(view.columns) if not column.ignore_changes]
        self._heading_printed = False
        self._documents = 0

    def print_first(self, rows: Iterable[TableRow]) -> None:
        """Print the first list."""
        found = list(rows)
        self._table.widen(row.cells for row in found)
        for row in found:
            self.print_row(row)

    def differs(self, before: TableRow, after: TableRow) -> bool:
        """Whether two rows differ in a column that is compared."""
        return [before.cells[i] for i in self._compared_columns] != [after.cells[i] for i in self._compared_columns]

    def print_row(self, row: TableRow) -> None:
        """Print an object."""
        if self._output in ("table", "wide"):
            self._table.widen([row.cells])
            if not self._heading_printed:
                echo(self._table.heading())
                self._heading_printed = True
            echo(self._table.line(row.cells))
        elif row.document is not None and self._output == "name":
            echo(object_name(row.document, self._view.resource))
        elif row.document is not None:
            if self._output == "yaml" and self._documents:
                echo("---")
            self._documents += 1
            echo_values(full_object(row.document, self._view.resource), self._output)


# ---- parts of it -----------------------------------------------------------------------------------------------------


def full_object(document: Document, resource: ResourceName) -> Document:
    """An object as the server stores it, without managedFields, which kubectl omits too."""
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name != "managedFields"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata}


def object_name(document: Document, resource: ResourceName) -> str:
    """``queue.scheduling.volcano.sh/dev``, as kubectl prints it."""
    group = resource.api_version.rpartition("/")[0]
    kind = f"{resource.kind.lower()}.{group}" if group else resource.kind.lower()
    return f"{kind}/{document.get('metadata', {}).get('name', '')}"


def styled_state(text: str) -> str:
    """A state or phase, in its colour."""
    return click.style(text, fg=STATE_COLORS[text]) if text in STATE_COLORS else text


def count_text(number: object) -> str:
    """A number that may not be there."""
    return str(number or 0)


def report_missing(resource: ResourceName, names: Iterable[str], known: Sequence[str]) -> int:
    """Report names that do not exist; returns the exit status."""
    missing = [name for name in names if name not in known]
    for name in missing:
        print_error(not_found_message(resource, name, known))
    return 1 if missing else 0


def not_found_message(resource: ResourceName, name: str, known: Sequence[str]) -> str:
    """The message that an object was not found, in the words of the server, with the closest existing name."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f'{resource.name} "{name}" not found' + (f"; did you mean {near[0]}?" if near else "")
