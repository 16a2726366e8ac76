"""The store: the current objects, their history, and their changes.

In memory: the newest revision of every key, and the keys in order. On disk: the log. A read finds the revision in
memory and the value in the cache or in the log.

A write has two phases. In the first, without waiting, it is checked against the newest state, ``latest``, gets its
revision and becomes part of ``latest``; so a read and a write without an ``await`` in between are atomic. In the second
phase its commit is on disk: readers and watchers see it, and its future completes. Between the two phases the write is
pending, and visible through ``latest`` only.

Revisions only increase. Those of a failed commit are not reused in this process: a controller may have seen them in
``latest`` and would confuse a later object with the one it saw. The next process may reuse them if nothing later was
committed: no component of it has seen them, and clients never see a revision that is not on disk.

Prefixes end with a slash (``pods/``, ``pods/default/``) or are empty.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.storage.cache import ValueCache
from kubesim.storage.directory_lock import DirectoryLock
from kubesim.storage.errors import Compacted, DataDamaged, RevisionConflict, StorageFailed
from kubesim.storage.key_index import KeyIndex
from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry, SetAside
from kubesim.storage.notifier import PrefixNotifier
from kubesim.storage.results import Page, Record
from kubesim.storage.watch_cache import Change, RecentChanges
from kubesim.storage.writer import Compaction, Write, Writer

CACHED_BYTES = 8 << 20
RECENT_BYTES = 4 << 20
RECENT_CHANGES = 4096

# Store has a method ``list``, so the type goes by other names in there.
Batch = list[Write]
Changes = list[Change]
Compactions = list[Compaction]
Names = list[str]
Revisions = list[int]
Witnesses = list[Callable[[str, bytes | None], None]]  # a key and what it becomes; None: it is deleted

LOOKED_AT = 2000
"""The number of log entries that one call of ``changes`` reads: some milliseconds."""


class Store:
    """An open store. All methods must be called in the event loop in which it was created."""

    def __init__(self, log: Log, holder: DirectoryLock | None = None) -> None:
        self._log = log
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._revisions = log.current()
        self.set_aside = [*log.damaged(self._revisions)]
        """The objects that are not served, because what is stored of them is damaged."""
        for damaged in self.set_aside:
            del self._revisions[damaged.key]
        self._keys = KeyIndex(self._revisions)
        self.revision = log.newest
        """The newest revision on disk, which readers see."""
        self.compacted = log.compacted
        """The history before this revision has been compacted."""
        self._assigned = log.newest
        self._epoch = 0
        self.write_observers: Witnesses = []
        """Called with every write when it is accepted, before ``latest`` shows it."""
        self._closed = False
        self._pending: deque[Write] = deque()
        self._latest: dict[str, Write] = {}  # of those pending, the newest of each key
        self._written: dict[str, int] = {}  # by resource: the newest revision since the start, pending ones included
        self._cache = ValueCache(CACHED_BYTES)
        self._recent = RecentChanges(self.revision, RECENT_CHANGES, RECENT_BYTES)
        self._notifier = PrefixNotifier()
        self._writer = Writer(log, self._committed, self._failed, self._swept)
        self._writer.start()

    @classmethod
    async def open(cls, path: Path | None, identity: ServerIdentity = KUBESIM) -> Self:
        """Open a data directory, created if needed. None: in memory only."""
        with ExitStack() as undo:
            holder = DirectoryLock.acquire(path, identity.program) if path else None
            if holder:
                undo.callback(holder.release)
            log = Log(path / identity.database if path else None, identity)
            undo.callback(log.close)
            store = cls(log, holder)
            undo.pop_all()
            return store

    async def close(self) -> None:
        """Wait for pending writes, and close the file."""
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()  # whatever it had to say came before that it has ended
        self._notifier.notify_all()
        self._log.close()
        if self._holder:
            self._holder.release()

    def exclude(self, key: str, problem: str) -> None:
        """Set aside an object that cannot be used, before it is read for the first time."""
        self.set_aside.append(SetAside(key, self._revisions.pop(key), problem))
        self._keys.remove(key)

    @property
    def checksums_after(self) -> int:
        """The newest revision without a checksum: whether what is older is what was written is not known."""
        return self._log.checksums_after

    def announce(self, address: str) -> None:
        """Record the server's address in the lock file."""
        if self._holder:
            self._holder.announce(address)

    # ---- reading ------------------------------------------------------------------------------------

    def get(self, key: str) -> Record | None:
        """The committed state of a key."""
        revision = self._revisions.get(key)
        return None if revision is None else Record(key, revision, self._value(key, revision))

    def latest(self, key: str) -> Record | None:
        """The newest state of a key, pending writes included: a write is checked against it."""
        write = self._latest.get(key)
        if write is None:
            return self.get(key)
        return None if write.line.deleted else Record(key, write.line.revision, write.line.value)

    def list_latest(self, prefix: str) -> Iterator[Record]:
        """``latest`` of every key under a prefix; pending writes come last."""
        under_way = [(key, write.line) for key, write in self._latest.items() if key.startswith(prefix)]
        passed_over = {key for key, _ in under_way}
        yield from (record for record in self.list(prefix).records if record.key not in passed_over)
        yield from (Record(key, line.revision, line.value) for key, line in under_way if not line.deleted)

    def version(self, resource: str) -> tuple[int, int]:
        """Differs from an earlier one if ``latest`` may show something else of a resource (``pods``) than then."""
        return self._written.get(resource, 0), self._epoch

    @property
    def failures(self) -> int:
        """The number of failed commits; each resets ``latest`` to the committed state."""
        return self._epoch

    def count(self, prefix: str) -> int:
        """The number of keys under a prefix."""
        return self._keys.count(prefix)

    def list(self, prefix: str, *, at: int | None = None, after: str = "", limit: int = 0) -> Page:
        """The records under a prefix, in the order of keys, now or at an older revision.

        ``after`` is the ``last_key`` of the page before, ``limit`` the most records (0: all).
        """
        revision = self.revision if at is None else at
        keys, revisions = self._state(prefix, revision, after)
        page = keys[:limit] if limit else keys
        found = [revisions[key] for key in page]
        records = list(map(Record._make, zip(page, found, self._values(found), strict=True)))
        return Page(records, revision, len(keys) - len(page), page[-1] if page else "")

    def _state(self, prefix: str, revision: int, after: str) -> tuple[Names, Mapping[str, int]]:
        """The keys under a prefix at a revision, and a table that has their revisions (and maybe those of others)."""
        keys = self._keys.under(prefix, after)
        if revision == self.revision:
            return keys, self._revisions
        before = self._before(prefix, revision)
        existed = {key: was for key, was in before.items() if was and key > after}
        keys = [key for key in keys if key not in before]
        if not existed:
            return keys, self._revisions
        revisions = {key: self._revisions[key] for key in keys} | existed
        return sorted(revisions), revisions

    def _before(self, prefix: str, revision: int) -> dict[str, int]:
        """Of the keys that changed after a revision: what they were at it."""
        if revision > self.revision:
            raise ValueError(f"revision {revision} is yet to come: the newest is {self.revision}")
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision < self._recent.floor(prefix):
            return self._log.before(prefix, revision, self.revision)
        return {change.key: change.before for change in reversed(self._recent.since(prefix, revision))}

    def _value(self, key: str, revision: int) -> bytes:
        value = self._cache.get(revision)
        if value is None:
            value = self._log.value(revision)
            if value is None:
                raise DataDamaged(f"the log has no revision {revision}, the newest of {key}{self._log.check_hint}")
            self._cache.add(revision, value)
        return value

    def _values(self, revisions: Revisions) -> Sequence[bytes]:
        """The values of many revisions, in their order. They do not push others out of the cache."""
        found: dict[int, bytes] = {}
        missing: Revisions = []
        for revision in revisions:
            value = self._cache.get(revision)
            if value is None:
                missing.append(revision)
            else:
                found[revision] = value
        if missing:
            missing.sort()  # in the order of the file
            found |= self._log.values(missing)
        try:
            return [found[revision] for revision in revisions]
        except KeyError as error:
            raise DataDamaged(f"the log has no revision {error}{self._log.check_hint}") from None

    # ---- watching -----------------------------------------------------------------------------------

    def changes(self, prefix: str, after: int, limit: int) -> tuple[Changes, int]:
        """The changes under a prefix after a revision, and the revision up to which they are complete.

        There may be more even if few are returned: continue from the returned revision. Changes that are still in
        memory are returned even if compacted, so that compaction does not cut off a watcher that is up to date.
        """
        if after >= self.revision:  # every watcher asks once more after it has taken the newest change
            return [], after
        if after >= self._recent.floor(prefix):
            found = self._recent.since(prefix, after)
            if len(found) <= limit:
                return found, max(after, self.revision)
            found = found[:limit]
            return found, found[-1].revision
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        heads = self._log.heads(after, self.revision, LOOKED_AT)
        complete = heads[-1].revision if len(heads) == LOOKED_AT else self.revision
        wanted = [head for head in heads if head.key.startswith(prefix)]
        if len(wanted) > limit:
            wanted = wanted[:limit]
            complete = wanted[-1].revision
        values = self._values([head.revision for head in wanted])
        return [
            Change(
                head.revision, head.key, value, deleted=bool(head.deleted), before=head.previous, read=self._previous
            )
            for head, value in zip(wanted, values, strict=True)
        ], complete

    def _previous(self, revision: int) -> bytes:
        """The value before a change, unless compacted."""
        value = self._cache.get(revision)
        if value is None:
            value = self._log.value(revision)
            if value is None:
                raise Compacted(revision, self.compacted)
        return value

    async def wait(self, prefix: str, after: int, timeout: float | None = None) -> bool:
        """Wait for a change under a prefix after a revision. Returns whether there was one within the timeout.

        True also if only the log can tell: then ``changes`` decides.
        """
        if not prefix.endswith("/") and prefix:
            raise ValueError(f"the prefix {prefix} does not end with a slash")
        deadline = None if timeout is None else self._loop.time() + timeout
        while not self._changed(prefix, after):
            if self._closed:
                raise StorageFailed("the store is closed")
            if deadline is not None and self._loop.time() >= deadline:
                return False
            await self._notifier.wait(prefix, deadline)
        return True

    def _changed(self, prefix: str, after: int) -> bool:
        return after < self.revision and (after < self._recent.floor(prefix) or self._recent.has_since(prefix, after))

    # ---- writing ------------------------------------------------------------------------------------

    def put(self, key: str, encode: Callable[[int], bytes], *, expected: int) -> asyncio.Future[Record]:
        """Write a key whose newest revision is ``expected`` (0: it does not exist), else raise RevisionConflict.

        ``encode`` builds the value for its revision.
        """
        return self._write(key, encode, expected, deleted=False)

    def delete(self, key: str, encode: Callable[[int], bytes], *, expected: int) -> asyncio.Future[Record]:
        """Remove a key whose newest revision is ``expected``; ``encode`` builds its last state, for watchers."""
        return self._write(key, encode, expected, deleted=True)

    def _write(
        self, key: str, encode: Callable[[int], bytes], expected: int, *, deleted: bool
    ) -> asyncio.Future[Record]:
        if self._closed:
            raise StorageFailed("the store is closed")
        under_way = self._latest.get(key)
        if under_way is None:
            found = self._revisions.get(key, 0)
        else:
            found = 0 if under_way.line.deleted else under_way.line.revision
        if found != expected or (deleted and not found):
            raise RevisionConflict(key, expected, found)
        revision = self._assigned + 1
        line = LogEntry(revision, key, expected, deleted, encode(revision))
        for witness in self.write_observers:
            witness(key, None if deleted else line.value)
        self._assigned = revision
        write = Write(line, self._epoch, self._loop.create_future())
        self._pending.append(write)
        self._latest[key] = write
        self._written[key.partition("/")[0]] = revision
        self._writer.submit(write)
        return write.future

    async def wait_for_commits(self) -> None:
        """Wait until all pending writes are on disk. Raises StorageFailed if one of them fails."""
        if self._pending:
            epoch = self._epoch
            await asyncio.wait([self._pending[-1].future])
            if epoch != self._epoch:
                raise StorageFailed("what this answer rests on was not written")

    def _committed(self, batch: Batch) -> None:
        """A batch is on disk: make it visible to readers and watchers, then complete its futures."""
        revisions, latest = self._revisions, self._latest
        for write in batch:
            revision, key, previous, deleted, value = write.line
            self._pending.popleft()
            if latest[key] is write:
                del latest[key]
            if deleted:
                del revisions[key]
                self._keys.remove(key)
            else:
                if not previous:
                    self._keys.add(key)
                revisions[key] = revision
            self._cache.add(revision, value)
            self._recent.add(Change(revision, key, value, deleted=bool(deleted), before=previous, read=self._previous))
        self.revision = batch[-1].line.revision
        for write in batch:
            if not write.future.done():  # the waiter may have been cancelled
                line = write.line
                write.future.set_result(Record(line.key, line.revision, line.value))
        for write in batch:
            self._notifier.notify(write.line.key)

    def _failed(self, error: Exception) -> None:
        """A batch has failed: roll back all pending writes, because they were checked against it."""
        self._epoch += 1
        refused = list(self._pending)
        self._pending.clear()
        self._latest.clear()
        for write in refused:
            if not write.future.done():
                failure = StorageFailed(f"revision {write.line.revision} of {write.line.key} was not written: {error}")
                failure.__cause__ = error
                write.future.set_exception(failure)

    async def compact(self, revision: int) -> None:
        """Compact the history before a revision. Returns when it is removed."""
        if revision > self.revision:
            raise ValueError(f"revision {revision} is yet to come: the newest is {self.revision}")
        if self._closed:
            raise StorageFailed("the store is closed")
        self.compacted = max(self.compacted, revision)  # at once, before it is removed
        done: asyncio.Future[None] = self._loop.create_future()
        self._writer.submit(Compaction(self.compacted, done))
        await done

    def _swept(self, compactions: Compactions, error: Exception | None) -> None:
        for compaction in compactions:
            if compaction.future.done():
                continue
            if error is None:
                compaction.future.set_result(None)
            else:
                failure = StorageFailed(f"the history up to revision {compaction.revision} was not removed: {error}")
                failure.__cause__ = error
                compaction.future.set_exception(failure)
