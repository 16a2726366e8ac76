"""What the tests of the storage have in common: small objects, and logs that misbehave on demand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry
from kubesim.storage.store import Store


def encoder(key: str, mark: object = "") -> Callable[[int], bytes]:
    """Makes the object of a key for a revision, as the verbs would; ``mark`` tells one version from another."""
    _, *place = key.split("/")
    metadata: dict[str, object] = dict(zip(("namespace", "name")[-len(place) :], place, strict=True))

    def encode(revision: int) -> bytes:
        return json.dumps({"metadata": metadata | {"resourceVersion": str(revision)}, "mark": mark}).encode()

    return encode


async def put(store: Store, key: str, mark: object = "") -> int:
    """Write a key, whatever it was before; returns its revision once that is on disk."""
    latest = store.latest(key)
    return (await store.put(key, encoder(key, mark), expected=latest.revision if latest else 0)).revision


async def delete(store: Store, key: str) -> int:
    """Delete a key that exists; returns the revision of the deletion."""
    latest = store.latest(key)
    assert latest is not None
    return (await store.delete(key, encoder(key, "deleted"), expected=latest.revision)).revision


def line(revision: int, key: str, previous: int = 0, *, deleted: bool = False) -> LogEntry:
    """A line of the log, with the value that belongs to it."""
    return LogEntry(revision, key, previous, int(deleted), encoder(key)(revision))


class SmallSteps(Log):
    """A log that compacts two lines at a time."""

    def sweep(self, at_once: int = 2) -> bool:
        return super().sweep(at_once)


class Failing(SmallSteps):
    """A log on a disk that is full as long as ``full`` is set."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.full = False

    def append(self, batch: Sequence[LogEntry]) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        super().append(batch)

    def compact(self, revision: int) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        super().compact(revision)
