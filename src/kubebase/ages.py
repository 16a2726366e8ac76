"""Ages and durations as kubectl prints them: the longer, the coarser.

All rows of a table must show ages of the same moment. ``at`` fixes that moment while a table is built; outside of it,
each call reads the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400

_moment: ContextVar[float | None] = ContextVar("moment", default=None)


@contextmanager
def at(now: float | None) -> Iterator[None]:
    """Take ``now`` (seconds since 1970; None: the clock) for the present as long as this lasts."""
    token = _moment.set(time.time() if now is None else now)
    try:
        yield
    finally:
        _moment.reset(token)


def age(timestamp: object) -> str:
    """How long ago a time was, written as in metadata (RFC 3339); ``<unknown>`` if there is none."""
    if not timestamp:
        return UNKNOWN
    then = seconds(timestamp)
    if then is None:
        return INVALID
    now = _moment.get()
    return duration((time.time() if now is None else now) - then)


def seconds(timestamp: object) -> float | None:
    """A time as seconds since 1970, or None if the text is not one."""
    try:
        parsed = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) and "T" in timestamp else None
    except ValueError:
        return None
    return parsed.timestamp() if parsed is not None and parsed.tzinfo is not None else None


def duration(length: float) -> str:
    """A duration in seconds: ``75s``, ``5m30s``, ``3h20m``, ``2d``, ``3y40d``.

    Each unit is shown with the next smaller one while that still matters, then alone. Clocks differ a little, so up
    to a second before its time counts as now.
    """
    whole = int(length)
    if whole < 0:
        return "0s" if whole == -1 else INVALID
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole, YEAR, "y", DAY, "d")
    return f"{whole // YEAR}y"


def _two(whole: int, unit: int, letter: str, small: int, small_letter: str) -> str:
    many, rest = divmod(whole, unit)
    few = rest // small
    return f"{many}{letter}{few}{small_letter}" if few else f"{many}{letter}"
