"""Timestamps in the format of Kubernetes objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import floor

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(seconds: float) -> str:
    """A moment, in seconds since 1970, as most fields have it: RFC 3339 in whole seconds."""
    return _stamp_of(floor(seconds))


@lru_cache(maxsize=64)  # a server writes the present second again and again
def _stamp_of(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> int:
    """The moment that RFC 3339 text names, in microseconds since 1970. ``ValueError`` if it names none."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return (found - EPOCH) // timedelta(microseconds=1)


def micro_stamp(seconds: float) -> str:
    """A moment as leases and events have it: with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
