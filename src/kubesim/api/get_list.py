"""The verbs that read: get and list.

They see committed writes only. A list is answered from the newest state or, page by page, from the revision of its
first page, as long as the log still has that revision.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kubesim.api import status
from kubesim.api.requests import ObjectSelection, ReadOptions, Target, continue_token
from kubesim.api.store_view import StoreView
from kubesim.registry.registry import Object
from kubesim.storage import Compacted, Record, Store

PAGE = 500  # records per batch when filtering with selectors

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class ListResult:
    """The answer to a list."""

    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> Object:
        """The metadata of the list."""
        found: Object = {"resourceVersion": str(self.revision)}
        if self.token:
            found["continue"] = self.token
            if self.remaining is not None:
                found["remainingItemCount"] = self.remaining
        return found


class ObjectReader:
    """The reading half of the API."""

    def __init__(self, store: Store | StoreView) -> None:
        self._store = store

    def get(self, target: Target, revision: int | None = None) -> Record:
        """One object, at least as new as a revision."""
        self._check_reached(revision)
        record = self._store.get(target.key)
        if record is None:
            raise status.not_found(target.resource.plural, target.resource.group, target.name)
        return record

    def list(self, target: Target, chosen: ObjectSelection, when: ReadOptions) -> ListResult:
        """The objects of a collection that are chosen, in the order of their names."""
        self._check_reached(when.revision)
        at = when.revision if when.exact else None
        prefix = target.resource.prefix(target.namespace)
        try:
            name = chosen.fields.value("metadata.name") if chosen.fields else None
            if name and at is None and (target.namespace or not target.resource.namespaced):
                return self._named(target, chosen, name)
            if chosen.everything:
                page = self._store.list(prefix, at=at, after=when.start, limit=when.limit)
                token = continue_token(page.revision, page.last_key, target) if page.remaining else ""
                return ListResult(page.records, page.revision, token, page.remaining if token else None)
            return self._filtered(target, chosen, when, at, prefix)
        except Compacted:
            raise self._too_old(target, when) from None

    def _named(self, target: Target, chosen: ObjectSelection, name: str) -> ListResult:
        """A list of one at most: what kubectl asks for when it waits for an object."""
        record = self._store.get(target.resource.key(target.namespace, name))
        found = [record] if record and chosen.matches(target.resource, _decode(record.value)) else []
        return ListResult(found, self._store.revision)

    def _filtered(
        self, target: Target, chosen: ObjectSelection, when: ReadOptions, at: int | None, prefix: str
    ) -> ListResult:
        found: list[Record] = []
        after = when.start
        while True:
            page = self._store.list(prefix, at=at, after=after, limit=PAGE if when.limit else 0)
            at = page.revision
            for record in page.records:
                if chosen.matches(target.resource, _decode(record.value)):
                    if when.limit and len(found) == when.limit:
                        return ListResult(found, at, continue_token(at, found[-1].key, target))
                    found.append(record)
            if not page.remaining:
                return ListResult(found, at)
            after = page.last_key

    def _check_reached(self, revision: int | None) -> None:
        """Reject a future revision: only this process assigns revisions, so waiting for it is pointless."""
        newest = self._store.revision
        if revision is not None and revision > newest:
            raise status.too_new(revision, newest)

    def _too_old(self, target: Target, when: ReadOptions) -> status.ApiError:
        if not when.start:
            return status.expired(
                f"The resourceVersion for the provided list is too old: {when.revision}, oldest {self._store.compacted}"
            )
        refused = status.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        refused.token = continue_token(self._store.revision, when.start, target)
        return refused
