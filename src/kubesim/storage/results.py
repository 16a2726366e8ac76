"""The results of the store."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """An object as it was written: ``value`` is its JSON, with the revision inside as metadata.resourceVersion."""

    key: str
    revision: int
    value: bytes


class Page(NamedTuple):
    """A list, or a part of one: in the order of the keys, as of a revision."""

    records: list[Record]
    revision: int
    remaining: int
    """The number of records after ``last_key``."""
    last_key: str
    """Where the next page begins (``after``); empty if there are no records."""
