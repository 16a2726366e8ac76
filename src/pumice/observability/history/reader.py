"""Reads the history of a queue as columns, for charts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kubebase.timestamps import stamp
from pumice.observability.history.store import CAPACITY, FORMAT, Point, mean_point, unpacked
from pumice.observability.history.tiers import RANGES, Range

Document = dict[str, Any]
_NOTHING = Point()


class NoHistoryError(Exception):
    """There is no history to read, and why."""


class NothingRecordedError(NoHistoryError):
    """The scheduler has not written its first point yet, or is a standby."""


def read_history(path: Path, queue: str, name: str, now: int) -> Document:
    """The history of a queue (by its path) in a range: columns of equal length, None where nothing was recorded.

    Raises ``NoHistoryError``.
    """
    if not path.exists():
        raise NothingRecordedError(f"{path}: the scheduler has recorded no history yet")
    try:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            database.execute("PRAGMA query_only=ON")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if not version:  # the file is being made
                raise NothingRecordedError(f"{path}: the scheduler has recorded no history yet")
            if version != FORMAT:
                raise NoHistoryError(f"{path}: written in format {version}; this version reads format {FORMAT}")
            return _read(database, queue, name, now)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise NoHistoryError(f"{path}: {error}") from None


def empty_history(queue: str, name: str, now: int) -> Document:
    """The history of a queue before the first point."""
    wanted = RANGES[name]
    until = now - now % wanted.step + wanted.step
    columns: Document = {"times": [], "used": {}, "entitled": {}, "waiting": {}, "capacity": {}}
    counts: Document = {"jobs": {"running": [], "pending": []}, "tasks": {"running": [], "waiting": []}}
    return {**_heading(queue, name, until - wanted.span, until), **columns, **counts}


def _heading(queue: str, name: str, since: int, until: int) -> Document:
    return {"queue": queue, "range": name, "step": RANGES[name].step, "from": stamp(since), "until": stamp(until)}


def _read(database: sqlite3.Connection, queue: str, name: str, now: int) -> Document:
    wanted = RANGES[name]
    until = now - now % wanted.step + wanted.step
    since = until - wanted.span
    capacity = _steps(_points(database, CAPACITY, wanted, since, until), wanted.step)
    found = _steps(_points(database, queue, wanted, since, until), wanted.step)
    times = list(range(since, until, wanted.step))
    points = [
        mean_point(found[time], len(capacity[time])) if time in found else _NOTHING if time in capacity else None
        for time in times
    ]
    whole = [mean_point(capacity[time], len(capacity[time])) if time in capacity else None for time in times]
    names = [str(row[0]) for row in database.execute("SELECT name FROM resources ORDER BY place")]
    return {
        **_heading(queue, name, since, until),
        "times": times,
        "used": _columns(names, points, lambda point: point.used),
        "entitled": _columns(names, points, lambda point: point.entitled),
        "waiting": _columns(names, points, lambda point: point.waiting),
        "capacity": _columns(names, whole, lambda point: point.used),
        "jobs": {"running": _counts(points, 0), "pending": _counts(points, 1)},
        "tasks": {"running": _counts(points, 2), "waiting": _counts(points, 3)},
    }


def _points(database: sqlite3.Connection, path: str, wanted: Range, since: int, until: int) -> list[tuple[int, Point]]:
    rows = database.execute(
        "SELECT time, packed FROM points WHERE tier=? AND queue=(SELECT id FROM queues WHERE path=?) "
        "AND time>=? AND time<? ORDER BY time",
        (wanted.tier.number, path, since, until),
    )
    return [(time, unpacked(packed)) for time, packed in rows]


def _steps(points: Sequence[tuple[int, Point]], step: int) -> dict[int, list[Point]]:
    """The points by the beginning of the step in which they are."""
    found: dict[int, list[Point]] = {}
    for time, point in points:
        found.setdefault(time - time % step, []).append(point)
    return found


def _columns(
    names: Sequence[str], points: Sequence[Point | None], part: Callable[[Point], Sequence[int] | None]
) -> dict[str, list[int | None]]:
    vectors = [part(point) if point is not None else None for point in points]
    return {
        name: [None if vector is None else vector[j] if j < len(vector) else 0 for vector in vectors]
        for j, name in enumerate(names)
        if name != "pods"
    }


def _counts(points: Sequence[Point | None], j: int) -> list[int | None]:
    return [None if point is None else point.counts[j] if j < len(point.counts) else 0 for point in points]
