"""A store as somebody sees it who may not see everything: the same objects, each reduced before anything reads it.

Selectors, tables and watches work on the reduced objects, so that no answer depends on what is hidden.
"""

from __future__ import annotations

from kubesim.api.access import Show
from kubesim.storage import Change, Page, Record, Store
from kubesim.storage.store import Changes


class StoreView:
    """The reading half of a store, through ``show``."""

    def __init__(self, store: Store, show: Show) -> None:
        self._store = store
        self._show = show

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self._store.revision

    @property
    def compacted(self) -> int:
        """The revision up to which the log is gone."""
        return self._store.compacted

    def get(self, key: str) -> Record | None:
        """One object."""
        record = self._store.get(key)
        return self._shown(record) if record is not None else None

    def list(self, prefix: str, *, at: int | None = None, after: str = "", limit: int = 0) -> Page:
        """A list, or a part of one."""
        page = self._store.list(prefix, at=at, after=after, limit=limit)
        return page._replace(records=[self._shown(record) for record in page.records])

    def changes(self, prefix: str, after: int, limit: int) -> tuple[Changes, int]:
        """The changes under a prefix. They share no encoded forms with those that others see."""
        found, complete = self._store.changes(prefix, after, limit)
        return [self._shown_change(change) for change in found], complete

    async def wait(self, prefix: str, after: int, timeout: float | None = None) -> bool:
        """Wait for a change under a prefix."""
        return await self._store.wait(prefix, after, timeout)

    def _shown(self, record: Record) -> Record:
        return record._replace(value=self._show(record.key, record.value))

    def _shown_change(self, change: Change) -> Change:
        def before(_: int) -> bytes:
            previous = change.previous
            assert previous is not None  # asked for only where there is one
            return self._show(change.key, previous)

        value = self._show(change.key, change.value)
        return Change(change.revision, change.key, value, deleted=change.deleted, before=change.before, read=before)
