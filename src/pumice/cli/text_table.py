"""Columns that line up, also where names are long, styled, or written in letters that take two places."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading and alignment."""

    heading: str
    align_right: bool = False
    min_width: int = 0
    """So wide it is in any case."""
    watch_width: int = 0
    """The minimum width in watch mode, where later rows may be longer."""
    ignore_changes: bool = False
    """Whether the column changes by itself, as an age does, so that its changes are not printed."""


class Table:
    """Rows under their headings. It grows with its rows, so that what is printed later lines up too."""

    def __init__(self, columns: Sequence[Column], *, room: bool = False) -> None:
        self._columns = columns
        self._widths = [
            max(column.min_width, column.watch_width if room else 0, display_width(column.heading))
            for column in columns
        ]

    def widen(self, rows: Iterable[Sequence[str]]) -> None:
        """Widen the columns to fit these rows."""
        for row in rows:
            self._widths = [max(known, display_width(cell)) for known, cell in zip(self._widths, row, strict=True)]

    def heading(self) -> str:
        """The line above the rows."""
        return self.line([click.style(column.heading, bold=True) for column in self._columns])

    def line(self, cells: Sequence[str]) -> str:
        """One row."""
        padded = [
            " " * (wide - display_width(cell)) + cell
            if column.align_right
            else cell + " " * (wide - display_width(cell))
            for cell, wide, column in zip(cells, self._widths, self._columns, strict=True)
        ]
        return GAP.join(padded).rstrip()


def display_width(cell: str) -> int:
    """The number of terminal columns of a text."""
    plain = click.unstyle(cell)
    if plain.isascii():
        return len(plain)
    return sum(_letter_width(letter) for letter in plain)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
