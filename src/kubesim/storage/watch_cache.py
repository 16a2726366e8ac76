"""The watch cache: the latest changes, in memory.

A watcher that keeps up never reads the file, and all watchers share the same ``Change``, so that it is decoded and
encoded once. Watchers that are further behind than the cache reaches read the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from kubesim.storage.key_index import above

WARM = 256
"""The number of latest changes that keep their decoded and encoded forms (a decoded pod takes 10 KB)."""

MOST_FLOORS = 20_000
"""The maximum number of prefixes with their own floor; beyond it, all share one floor again."""

OVERHEAD = 400
"""What a change costs beside its value, roughly."""


class Change:
    """One line of the log. ``value`` is the object after the change; of a deletion, its last state."""

    __slots__ = ("_before", "_cold", "_object", "_old", "_read", "deleted", "encoded", "key", "revision", "value")

    def __init__(
        self,
        revision: int,
        key: str,
        value: bytes,
        *,
        deleted: bool = False,
        before: int = 0,
        read: Callable[[int], bytes] | None = None,
    ) -> None:
        self.revision = revision
        self.key = key
        self.value = value
        self.deleted = deleted
        self.encoded: dict[Any, Any] = {}
        """Encoded forms, shared by watchers."""
        self._before = before
        self._read = read
        self._cold = False
        self._object: dict[str, Any] | None = None
        self._old: dict[str, Any] | None = None

    @property
    def before(self) -> int:
        """The revision of the key before this one; 0: it did not exist."""
        return self._before

    @property
    def previous(self) -> bytes | None:
        """The value before, None if the object was created. Read when asked for; Compacted if it is gone by then."""
        return self._read(self._before) if self._before and self._read else None

    @property
    def object(self) -> dict[str, Any]:
        """The decoded value, shared by all users: must not be modified."""
        if self._object is not None:
            return self._object
        decoded: dict[str, Any] = msgspec.json.decode(self.value)
        if not self._cold:
            self._object = decoded
        return decoded

    @property
    def old(self) -> dict[str, Any] | None:
        """The value before, decoded. Not to be changed."""
        if self._old is not None:
            return self._old
        previous = self.previous
        if previous is None:
            return None
        decoded: dict[str, Any] = msgspec.json.decode(previous)
        if not self._cold:
            self._old = decoded
        return decoded

    def drop_decoded(self) -> None:
        """Drop the decoded and encoded forms for good: most watchers have processed the change."""
        self._cold = True
        self._object = self._old = None
        self.encoded = {}

    def __repr__(self) -> str:
        return f"Change({self.revision}, {self.key!r}{', deleted' if self.deleted else ''})"


class RecentChanges:
    """The changes of late: all of them, in order, and by resource."""

    def __init__(self, revision: int, most: int, most_bytes: int) -> None:
        self._begin = revision
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._all: deque[Change] = deque()
        self._of: dict[str, deque[Change]] = {}
        self._forgotten: dict[str, int] = {}  # by prefix: the newest that is no longer here

    def floor(self, prefix: str) -> int:
        """The revision after which the cache has all changes under a prefix.

        Each prefix has its own floor: a watcher of a resource that never changes stays up to date.
        """
        return self._forgotten.get(prefix, self._begin)

    def since(self, prefix: str, after: int) -> list[Change]:
        """The changes under a prefix after ``after``, which is not below its floor; oldest first."""
        resource, _, rest = prefix.partition("/")
        found = []
        for change in reversed(self._of.get(resource, ()) if resource else self._all):
            if change.revision <= after:  # a watcher that keeps up only visits new changes
                break
            found.append(change)
        found.reverse()
        return [change for change in found if change.key.startswith(prefix)] if rest else found

    def has_since(self, prefix: str, after: int) -> bool:
        """Whether there is a change under a prefix after ``after``, which is not below its floor."""
        resource = prefix.partition("/")[0]
        for change in reversed(self._of.get(resource, ()) if resource else self._all):
            if change.revision <= after:
                return False
            if change.key.startswith(prefix):
                return True
        return False

    def add(self, change: Change) -> None:
        """Remember a change, newer than all before."""
        everything = self._all
        everything.append(change)
        resource = change.key.partition("/")[0]
        of_resource = self._of.get(resource)
        if of_resource is None:
            of_resource = self._of[resource] = deque()
        of_resource.append(change)
        self._bytes += len(change.value) + OVERHEAD
        if len(everything) > WARM:
            everything[-WARM - 1].drop_decoded()
        while len(everything) > self._most or self._bytes > self._most_bytes:
            self._forget()

    def _forget(self) -> None:
        oldest = self._all.popleft()
        self._bytes -= len(oldest.value) + OVERHEAD
        resource = oldest.key.partition("/")[0]
        of_resource = self._of[resource]
        of_resource.popleft()
        if not of_resource:
            del self._of[resource]
        if len(self._forgotten) > MOST_FLOORS:
            self._begin = oldest.revision
            self._forgotten.clear()
        for prefix in above(oldest.key):
            self._forgotten[prefix] = oldest.revision
