"""Short lists of objects that other writes look at, decoded once: priority classes for every pod, say.

A list is kept until one of its resource is written. Whoever gets it must not change it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubesim.registry.registry import Object
from kubesim.storage import Store

MOST_OBJECTS = 32
"""The length of a list that is kept; longer ones would take memory, and decoding them is worth a look of their own."""
MOST_LISTS = 32

_decode = msgspec.json.Decoder().decode


class ShortLists:
    """The lists of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, tuple[tuple[int, int], Sequence[Object]]] = {}  # by prefix, with the version of each

    def latest(self, prefix: str) -> Sequence[Object]:
        """All objects under a prefix, those of pending writes included."""
        version = self._store.version(prefix.partition("/")[0])
        kept = self._kept.get(prefix)
        if kept is not None and kept[0] == version:
            return kept[1]
        found = [_decode(record.value) for record in self._store.list_latest(prefix)]
        self._kept.pop(prefix, None)
        if len(found) <= MOST_OBJECTS:
            if len(self._kept) >= MOST_LISTS:
                self._kept.clear()
            self._kept[prefix] = version, found
        return found
