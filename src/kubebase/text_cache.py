"""A cache for functions of a short text, such as a timestamp or an address, that clients send again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST_TEXT = 64
"""Longer texts are not cached: clients choose them, and a cache must not hold what they please."""


def cached_by_text(entries: int = 1024) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Remember the results for the latest short texts. Errors are not remembered."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(text: str) -> T:
            return cached(text) if len(text) <= LONGEST_TEXT else function(text)

        return call

    return decorate
