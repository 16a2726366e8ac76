"""Objects on paper: a table for people, JSON, YAML or names for programs; once, or again whenever they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from pumice.cli.terminal import complain, echo, echo_values
from pumice.cli.text_table import Column, Table

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document, Query
    from pumice.kube.resources import Resource
    from pumice.kube.watch.sync_watch import CollectionWatch

OUTPUTS = ("table", "wide", "json", "yaml", "name")
COLOURS = {
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
class Row:
    """A line of a table, and the object behind it, if there is one."""

    cells: Sequence[str]
    document: Document | None

    def told_gone(self, place: int) -> Row:
        """The same line for an object that is no longer there; ``place`` is the column with its state."""
        cells = list(self.cells)
        cells[place] = state("Deleted")
        return Row(cells, self.document)


class View(Protocol):
    """Which objects of a collection are shown, and how."""

    @property
    def resource(self) -> Resource[Any]:
        """The collection."""

    @property
    def columns(self) -> Sequence[Column]:
        """The table."""

    @property
    def state_column(self) -> int:
        """Which of the columns says how an object is."""

    def rows(self, objects: Iterable[Document]) -> Mapping[str, Row]:
        """The lines, in order, each under a name of its own."""


def output_option(function: Function) -> Function:
    """The option that says how to print."""
    return click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="How to print."
    )(function)


def watch_option(function: Function) -> Function:
    """The option that makes a command stay."""
    return click.option("-w", "--watch", is_flag=True, help="Stay, and print what changes.")(function)


def look(
    client: Client, path: str, query: Query | None, view: View, output: str, *, watch: bool, alone: bool = False
) -> int:
    """Print what a collection holds, and with ``watch`` what changes in it, until interrupted; gives the count.

    A single object that was asked for ``alone`` is printed as itself, not as a list of one.
    """
    if not watch:
        rows = view.rows(client.list(path, query).items)
        _print(rows, view, output, alone=alone)
        return len(rows)
    from pumice.kube.watch.sync_watch import CollectionWatch

    following = CollectionWatch(client, path, query, cut=lambda why: echo(f"lost {why}; trying again", err=True))
    _follow(following, view, output)
    return len(following.objects)


def _print(rows: Mapping[str, Row], view: View, output: str, *, alone: bool) -> None:
    documents = [row.document for row in rows.values() if row.document is not None]
    if output in ("json", "yaml"):
        whole = [whole_document(document, view.resource) for document in documents]
        single = alone and len(whole) == 1
        echo_values(whole[0] if single else {"apiVersion": "v1", "kind": "List", "items": whole}, output)
    elif output == "name":
        for document in documents:
            echo(object_name(document, view.resource))
    elif rows:
        table = Table(view.columns)
        table.fit(row.cells for row in rows.values())
        echo(table.heading())
        for row in rows.values():
            echo(table.line(row.cells))


def _follow(following: CollectionWatch, view: View, output: str) -> None:
    """Print what is there, then every line that changes; of a table those in which people would see a difference."""
    shown = dict(view.rows(following.objects.values()))
    stream = _Stream(view, output)
    stream.begin(shown.values())
    for change in following.changes():
        rows = view.rows(following.objects.values())
        for key in [key for key in shown if key not in rows]:
            stream.line(shown.pop(key).told_gone(view.state_column))
        for key, row in rows.items():
            before = shown.get(key)
            differs = before is None or stream.differs(before, row)
            if differs if output in ("table", "wide") else row.document is change.object:
                stream.line(row)
            shown[key] = row


class _Stream:
    """Lines one after the other, as long as somebody looks."""

    def __init__(self, view: View, output: str) -> None:
        self._view = view
        self._output = output
        self._table = Table(view.columns, room=True)
        self._lasting = [i for i, column in enumerate(view.columns) if not column.passing]
        self._headed = False
        self._documents = 0

    def begin(self, rows: Iterable[Row]) -> None:
        """What is there at first."""
        found = list(rows)
        self._table.fit(row.cells for row in found)
        for row in found:
            self.line(row)

    def differs(self, before: Row, after: Row) -> bool:
        """Whether people would see a difference."""
        return [before.cells[i] for i in self._lasting] != [after.cells[i] for i in self._lasting]

    def line(self, row: Row) -> None:
        """Print an object."""
        if self._output in ("table", "wide"):
            self._table.fit([row.cells])
            if not self._headed:
                echo(self._table.heading())
                self._headed = True
            echo(self._table.line(row.cells))
        elif row.document is not None and self._output == "name":
            echo(object_name(row.document, self._view.resource))
        elif row.document is not None:
            if self._output == "yaml" and self._documents:
                echo("---")
            self._documents += 1
            echo_values(whole_document(row.document, self._view.resource), self._output)


# ---- parts of it -----------------------------------------------------------------------------------------------------


def whole_document(document: Document, resource: Resource[Any]) -> Document:
    """An object as the server has it, but for who manages which field, which kubectl leaves out too."""
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name != "managedFields"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata}


def object_name(document: Document, resource: Resource[Any]) -> str:
    """``queue.scheduling.volcano.sh/dev``, as kubectl says it."""
    group = resource.api_version.rpartition("/")[0]
    kind = f"{resource.kind.lower()}.{group}" if group else resource.kind.lower()
    return f"{kind}/{document.get('metadata', {}).get('name', '')}"


def state(text: str) -> str:
    """A state or phase, in its colour."""
    return click.style(text, fg=COLOURS[text]) if text in COLOURS else text


def count(number: object) -> str:
    """A number that may not be there."""
    return str(number or 0)


def miss(resource: Resource[Any], names: Iterable[str], known: Sequence[str]) -> int:
    """Say which names lead nowhere; gives the exit status that this deserves."""
    missing = [name for name in names if name not in known]
    for name in missing:
        complain(not_found(resource, name, known))
    return 1 if missing else 0


def not_found(resource: Resource[Any], name: str, known: Sequence[str]) -> str:
    """That there is no such object, in the words of the server, and which one may have been meant."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f'{resource.name} "{name}" not found' + (f"; did you mean {near[0]}?" if near else "")
