"""One entry of the log, and whether it is what was written."""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

import msgspec

WRONG_TYPES: Final = "its columns have values of wrong types"


class LogEntry(NamedTuple):
    """One line of the log, as its table has it."""

    revision: int
    key: str
    previous: int
    deleted: int
    value: bytes


class LogEntryHead(NamedTuple):
    """A line without its value."""

    revision: int
    key: str
    previous: int
    deleted: int


class SetAside(NamedTuple):
    """An object that is not served, because its newest entry cannot be used."""

    key: str
    revision: int
    problem: str

    def __str__(self) -> str:
        return f"{self.key} (revision {self.revision}): {self.problem}"


def checksum_of(revision: int, key: str, previous: int, deleted: int, value: bytes) -> int:
    """The checksum of an entry: of its value, and of all that says whose value it is."""
    return crc32(value, crc32(b"%d %d %d %b" % (revision, previous, deleted, key.encode())))


def entry_problem(entry: LogEntry, checksum: object, *, checked: bool) -> str:
    """Why an entry cannot be used; empty if it can. ``checked``: it was written with a checksum."""
    if list(map(type, entry)) != [int, str, int, int, bytes] or entry.deleted not in {0, 1}:
        return WRONG_TYPES
    if (checked or checksum is not None) and checksum != checksum_of(*entry):
        return "it does not match its checksum: the disk has changed it"
    return value_problem(entry)


class _Metadata(msgspec.Struct):
    name: str
    resourceVersion: str  # noqa: N815 - as the API spells it
    namespace: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


def value_problem(entry: LogEntry) -> str:
    """Why the value is not the object of that key and revision; empty if it is."""
    try:
        metadata = _decode(entry.value).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"its value is not an object: {error}"
    if metadata.resourceVersion != str(entry.revision):
        return f"its value says resourceVersion {metadata.resourceVersion!r}"
    _, *place = entry.key.split("/")
    if place != ([metadata.name] if metadata.namespace is None else [metadata.namespace, metadata.name]):
        where = "no namespace" if metadata.namespace is None else f"namespace {metadata.namespace!r}"
        return f"its value says name {metadata.name!r}, {where}"
    return ""
