"""The file of the history.

A point of a queue is one row: tier, queue, time and the packed values. A queue that holds and wants nothing has no row;
the capacity of the cluster has one at every recorded time, which tells "nothing" from "not recorded". The coarser tiers
are computed from the finer ones, so a restart loses at most the step that was under way.

Vectors are over the resources of the file, which are only ever added: the scheduler's own order may differ after a
restart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

import msgspec

from pumice.observability.history.tiers import TIERS, Tier

FORMAT = 1
CAPACITY = ""
"""The path under which the capacity of the cluster is recorded."""
COUNTS = ("jobsRunning", "jobsPending", "tasksRunning", "tasksWaiting")

_SCHEMA = """
CREATE TABLE queues (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE resources (place INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE points (
    tier INTEGER NOT NULL, queue INTEGER NOT NULL, time INTEGER NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (tier, queue, time)
) WITHOUT ROWID;
CREATE INDEX points_by_time ON points (tier, time);
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[int], list[int] | None, list[int], list[int]]).decode


class HistoryError(Exception):
    """The file cannot be used, and why."""


@dataclass(frozen=True, slots=True)
class Point:
    """The values of a queue. Vectors may be shorter than the number of resources: the rest is 0."""

    used: Sequence[int] = ()
    entitled: Sequence[int] | None = ()
    waiting: Sequence[int] = ()
    counts: Sequence[int] = ()
    """In the order of ``COUNTS``."""

    def __bool__(self) -> bool:
        return any(map(any, (self.used, self.entitled or (), self.waiting, self.counts)))

    def packed(self) -> bytes:
        """The bytes of the file."""
        entitled = None if self.entitled is None else _trimmed(self.entitled)
        return _encode((_trimmed(self.used), entitled, _trimmed(self.waiting), _trimmed(self.counts)))


def unpacked(packed: bytes) -> Point:
    """The point that was packed."""
    return Point(*_decode(packed))


def mean_point(points: Sequence[Point], number: int) -> Point:
    """The mean of points over a number of times; at times without a point everything was 0."""
    entitled = [point.entitled for point in points if point.entitled is not None]
    return Point(
        _mean([point.used for point in points], number),
        _mean(entitled, number) if entitled or not points else None,
        _mean([point.waiting for point in points], number),
        _mean([point.counts for point in points], number),
    )


def _mean(vectors: Iterable[Sequence[int]], number: int) -> list[int]:
    return [(sum(amounts) + number // 2) // number for amounts in zip_longest(*vectors, fillvalue=0)]


def _trimmed(vector: Sequence[int]) -> list[int]:
    end = len(vector)
    while end and not vector[end - 1]:
        end -= 1
    return list(vector[:end])


class HistoryStore:
    """Writes the history. One process writes a file; any number read it."""

    def __init__(self, path: Path, *, largest: int) -> None:
        self._largest = largest
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise HistoryError(f"{path}: {error}") from None
        self._queues: dict[str, int] = dict(self._database.execute("SELECT path, id FROM queues"))
        self._places: dict[str, int] = dict(self._database.execute("SELECT name, place FROM resources"))

    def _prepare(self) -> None:
        database = self._database
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA journal_size_limit=4194304")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
        elif version != FORMAT:
            raise sqlite3.DatabaseError(f"written in format {version}; this version writes format {FORMAT}")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def write(self, time: int, names: Sequence[str], points: Mapping[str, Point]) -> None:
        """Write the points of a step of the first tier, and what it completes of the others.

        ``names`` are the resources by place in the vectors; the point of ``CAPACITY`` must be there.
        """
        assert CAPACITY in points
        self._database.execute("BEGIN IMMEDIATE")
        try:
            rows = [
                (TIERS[0].number, self._queue(path), time, self._translated(names, point).packed())
                for path, point in points.items()
                if point or path == CAPACITY
            ]
            self._insert(rows)
            for finer, tier in pairwise(TIERS):
                self._roll_up(finer, tier, time)
            self._prune(time)
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._shrink()

    def _insert(self, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", rows)

    def _roll_up(self, finer: Tier, tier: Tier, now: int) -> None:
        """Compute the steps of a tier that are over and not there yet."""
        capacity = self._queue(CAPACITY)
        last = self._database.execute(
            "SELECT max(time) FROM points WHERE tier=? AND queue=?", (tier.number, capacity)
        ).fetchone()[0]
        first = self._database.execute(
            "SELECT min(time) FROM points WHERE tier=? AND queue=? AND time>=?",
            (finer.number, capacity, -1 if last is None else last + tier.step),
        ).fetchone()[0]
        if first is None:
            return
        start = first - first % tier.step
        while start + tier.step <= now:
            self._insert(self._mean_rows(finer, tier, start))
            start += tier.step

    def _mean_rows(self, finer: Tier, tier: Tier, start: int) -> list[tuple[int, int, int, bytes]]:
        found: dict[int, list[Point]] = {}
        for queue, packed in self._database.execute(
            "SELECT queue, packed FROM points WHERE tier=? AND time>=? AND time<?",
            (finer.number, start, start + tier.step),
        ):
            found.setdefault(queue, []).append(unpacked(packed))
        number = len(found.get(self._queue(CAPACITY), ()))
        if not number:  # nothing was recorded then
            return []
        return [(tier.number, queue, start, mean_point(points, number).packed()) for queue, points in found.items()]

    def _prune(self, now: int) -> None:
        for tier in TIERS:
            self._database.execute("DELETE FROM points WHERE tier=? AND time<?", (tier.number, now - tier.kept))

    def _shrink(self) -> None:
        """Delete the oldest tenth of the largest tier while the file is larger than allowed."""
        size, free, pages = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "freelist_count", "page_count")
        )
        if (pages - free) * size <= self._largest:
            return
        counts = dict(self._database.execute("SELECT tier, count(*) FROM points GROUP BY tier"))
        tier = max(counts, key=lambda number: counts[number])
        oldest, newest = self._database.execute(
            "SELECT min(time), max(time) FROM points WHERE tier=?", (tier,)
        ).fetchone()
        limit = oldest + max(1, (newest - oldest) // 10)
        self._database.execute("DELETE FROM points WHERE tier=? AND time<?", (tier, limit))

    def _queue(self, path: str) -> int:
        found = self._queues.get(path)
        if found is None:
            found = self._queues[path] = len(self._queues) + 1
            self._database.execute("INSERT INTO queues VALUES (?, ?)", (found, path))
        return found

    def _translated(self, names: Sequence[str], point: Point) -> Point:
        """The point over the resources of the file."""
        return Point(
            self._vector(names, point.used),
            None if point.entitled is None else self._vector(names, point.entitled),
            self._vector(names, point.waiting),
            point.counts,
        )

    def _vector(self, names: Sequence[str], vector: Sequence[int]) -> list[int]:
        found = [0] * len(self._places)
        for name, amount in zip(names, vector, strict=False):
            if amount:
                place = self._place(name)
                found += [0] * (place + 1 - len(found))
                found[place] = amount
        return found

    def _place(self, name: str) -> int:
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self._places)
            self._database.execute("INSERT INTO resources VALUES (?, ?)", (found, name))
        return found
