"""A cache of the values that were written or read last, limited in bytes.

Values are cached by revision, not by key: the value of a revision never changes, so no entry ever becomes invalid, and
the value before a change can be found here too.
"""

from __future__ import annotations

OVERHEAD = 100
"""What an entry costs beside its value, roughly."""


class ValueCache:
    """Values by revision; those not used for the longest time go first."""

    def __init__(self, most: int) -> None:
        self._values: dict[int, bytes] = {}  # the least recently used first
        self._most = most
        self._bytes = 0

    def add(self, revision: int, value: bytes) -> None:
        """Keep a value that is not here yet."""
        values = self._values
        values[revision] = value
        self._bytes += len(value) + OVERHEAD
        while self._bytes > self._most:
            self._bytes -= len(values.pop(next(iter(values)))) + OVERHEAD

    def get(self, revision: int) -> bytes | None:
        """A value, if it is here."""
        value = self._values.pop(revision, None)
        if value is not None:
            self._values[revision] = value
        return value
