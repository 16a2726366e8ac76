"""A sorted index of all keys, in which the keys under a prefix are one slice.

It is a sorted list in pieces: an insertion moves the pointers of one piece only, and a lookup is two binary searches.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import lru_cache

MOST = 1024
"""The length at which a piece is cut in two."""

_BEYOND = "\U0010ffff"  # sorts after everything that continues a prefix


class KeyIndex:
    """A set of keys that is always sorted."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._pieces = [ordered[start : start + MOST // 2] for start in range(0, len(ordered), MOST // 2)]
        self._lasts = [piece[-1] for piece in self._pieces]

    def add(self, key: str) -> None:
        """Put in a key that is not there."""
        if not self._pieces:
            self._pieces, self._lasts = [[key]], [key]
            return
        at = min(bisect_left(self._lasts, key), len(self._pieces) - 1)
        piece = self._pieces[at]
        insort(piece, key)
        if len(piece) > MOST:
            self._pieces[at : at + 1] = [piece[: MOST // 2], piece[MOST // 2 :]]
            self._lasts[at : at + 1] = [piece[MOST // 2 - 1], piece[-1]]
        else:
            self._lasts[at] = piece[-1]

    def remove(self, key: str) -> None:
        """Take out a key that is there."""
        at = bisect_left(self._lasts, key)
        piece = self._pieces[at]
        del piece[bisect_left(piece, key)]
        if piece:
            self._lasts[at] = piece[-1]
        else:
            del self._pieces[at], self._lasts[at]

    def under(self, prefix: str, after: str = "") -> list[str]:
        """The keys that begin with ``prefix``, those beyond ``after`` only."""
        first, start = self._place(max(prefix, after + "\0") if after else prefix)
        last, end = self._place(prefix + _BEYOND)
        if first == last:
            return self._pieces[first][start:end] if first < len(self._pieces) else []
        if first > last:
            return []
        found = self._pieces[first][start:]
        for piece in self._pieces[first + 1 : last]:
            found += piece
        if last < len(self._pieces):
            found += self._pieces[last][:end]
        return found

    def count(self, prefix: str) -> int:
        """How many keys begin with ``prefix``."""
        first, start = self._place(prefix)
        last, end = self._place(prefix + _BEYOND)
        return sum(map(len, self._pieces[first:last])) - start + end

    def _place(self, key: str) -> tuple[int, int]:
        """The position of the first key that is not below ``key``: the piece and the index in it."""
        at = bisect_left(self._lasts, key)
        return at, bisect_left(self._pieces[at], key) if at < len(self._pieces) else 0


def above(key: str) -> tuple[str, ...]:
    """The prefixes that a key is under: of ``pods/default/web`` these are ``""``, ``pods/`` and ``pods/default/``."""
    return _prefixes(key.rpartition("/")[0])


@lru_cache(maxsize=4096)  # one entry for a namespace of a resource, and several look-ups for every write
def _prefixes(folder: str) -> tuple[str, ...]:
    parts = folder.split("/") if folder else []
    return ("", *("/".join([*parts[: end + 1], ""]) for end in range(len(parts))))
