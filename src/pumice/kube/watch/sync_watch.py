"""A collection and its changes, for a command that shows both until it is interrupted.

The output is complete whatever happens to the connection: after an interruption the watch continues where it was, and
if that resourceVersion is too old, the collection is listed again and the differences are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.sync_client import Client, Document, Query

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

PAUSE = 1.0
"""Seconds before a cut connection is tried again."""
BUSY = frozenset({429, 500, 502, 503, 504})
"""Answers after which it is worth trying again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A watch event: its type, and the object; a deleted object as it last was."""

    kind: str
    object: Document


class CollectionWatch:
    """One collection. ``objects`` are those that are there now, by namespace and name."""

    def __init__(
        self,
        client: Client,
        path: str,
        query: Query | None = None,
        *,
        cut: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._cut = cut  # told, once each time, that the connection is lost
        self._sleep = sleep
        self._lost = False
        listing = client.list(path, query)
        self.objects = {_key(item): item for item in listing.items}
        self._revision = listing.revision

    def changes(self) -> Iterator[Change]:
        """All events from now on, without an end."""
        while True:
            try:
                began = time.monotonic()
                yield from self._watched()
                if time.monotonic() - began < PAUSE:
                    self._sleep(PAUSE)  # whoever ends a watch at once would be asked without a pause
            except ApiError as error:
                if error.expired:
                    yield from self._anew()
                elif error.code in BUSY:
                    self._wait(str(error), error.retry_after)
                else:
                    raise
            except UnreachableError as error:
                self._wait(str(error))

    def _watched(self) -> Iterator[Change]:
        for kind, changed in self._client.watch(self._path, self._revision, self._query):
            self._lost = False
            self._revision = str(changed.get("metadata", {}).get("resourceVersion") or self._revision)
            if kind in (ADDED, MODIFIED):
                self.objects[_key(changed)] = changed
            elif kind == DELETED:
                self.objects.pop(_key(changed), None)
            else:
                continue
            yield Change(kind, changed)

    def _anew(self) -> Iterator[Change]:
        """List all objects, and report the differences to the cache."""
        try:
            listing = self._client.list(self._path, self._query)
        except UnreachableError as error:
            return self._wait(str(error))
        except ApiError as error:
            if error.code not in BUSY:
                raise
            return self._wait(str(error), error.retry_after)
        self._lost = False
        before, self.objects = self.objects, {_key(item): item for item in listing.items}
        self._revision = listing.revision
        for key, known in before.items():
            if _identity(self.objects.get(key)) != _identity(known):
                yield Change(DELETED, known)
        for key, found in self.objects.items():
            known_before = before.get(key)
            if _identity(known_before) != _identity(found):
                yield Change(ADDED, found)
            elif known_before is not None and _version(known_before) != _version(found):
                yield Change(MODIFIED, found)
        return None

    def _wait(self, why: str, seconds: float | None = None) -> None:
        if not self._lost:
            self._lost = True
            self._cut(why)
        self._sleep(seconds or PAUSE)


def _key(document: Document) -> str:
    about = document.get("metadata") or {}
    return f"{about.get('namespace') or ''}/{about.get('name') or ''}"


def _identity(document: Document | None) -> str:
    return "" if document is None else str(document.get("metadata", {}).get("uid") or _key(document))


def _version(document: Document) -> str:
    return str(document.get("metadata", {}).get("resourceVersion") or "")
