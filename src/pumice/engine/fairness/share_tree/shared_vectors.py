"""Vectors that many jobs share because theirs are equal: none of them ever changes in place."""

from __future__ import annotations

from functools import lru_cache

_ZEROS: dict[int, list[int]] = {}
_NO_DUES: dict[int, list[float]] = {}

Counters = tuple[list[int], list[int], list[int]]
"""Total demand; admitted but not yet held; held beyond what must run (docs/fairness.md, section 6.6)."""


def shared_zeros(width: int) -> list[int]:
    """A vector of zeros that all jobs share for which it has not become another one; never changed in place."""
    found = _ZEROS.get(width)
    if found is None:
        found = _ZEROS[width] = [0] * width
    return found


def shared_dues(width: int) -> list[float]:
    """The same of floats."""
    return _NO_DUES.setdefault(width, [0.0] * width)


@lru_cache(maxsize=1 << 12)
def shared_vector(amounts: tuple[int, ...]) -> list[int]:
    """A vector that all jobs share for which it is the same; never changed in place."""
    return list(amounts) if any(amounts) else shared_zeros(len(amounts))


@lru_cache(maxsize=1 << 6)
def no_counters(width: int) -> Counters:
    """The counters of a job without a ledger, one object for all of them."""
    return shared_zeros(width), shared_zeros(width), shared_zeros(width)


@lru_cache(maxsize=1 << 12)
def shared_counters(request: tuple[int, ...], inqueue: tuple[int, ...], elastic: tuple[int, ...]) -> Counters:
    """The counters of a job, one object for all that have the same."""
    return shared_vector(request), shared_vector(inqueue), shared_vector(elastic)
