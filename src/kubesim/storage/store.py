"""The store: what exists now, what existed, and what changes.

In memory: for every key its newest revision, and the keys in order. On disk: the log. A read finds the revision
here and the value in the cache or in the log.

A write happens in two moments. In the first, without waiting, it is judged against the newest state there is,
``latest``, gets its revision and is part of ``latest`` itself; so whatever reads and writes without an ``await`` in
between is atomic. In the second its commit is on disk: it becomes what readers and watchers see, and its future is
done. Between the two it is known here as under way, and to nobody outside.

Revisions only grow. Those of a failed commit are not used again while the process lives: whoever works in this
process has seen them in ``latest`` and might take the next object to carry one for the one it knew. The next
process does use them again, if nothing later was committed: those who saw them are gone with this one, and no client
was ever shown one that was not on disk.

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
from kubesim.storage.log import Log, LogEntry
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
"""How many lines of the log one answer of ``changes`` looks at: some milliseconds."""


class Store:
    """An open store. Everything is called in the event loop in which it was made."""

    def __init__(self, log: Log, holder: DirectoryLock | None = None) -> None:
        self._log = log
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._revisions = log.current()
        self._keys = KeyIndex(self._revisions)
        self.revision = log.newest
        """The newest revision that is on disk: what readers see."""
        self.compacted = log.compacted
        """The history before this revision is gone."""
        self._assigned = log.newest
        self._epoch = 0
        self.write_observers: Witnesses = []
        """Called with every write in the moment at which it is judged, before ``latest`` shows it."""
        self._closed = False
        self._pending: deque[Write] = deque()
        self._latest: dict[str, Write] = {}  # of those pending, the newest of each key
        self._cache = ValueCache(CACHED_BYTES)
        self._recent = RecentChanges(self.revision, RECENT_CHANGES, RECENT_BYTES)
        self._notifier = PrefixNotifier()
        self._writer = Writer(log, self._committed, self._failed, self._swept)
        self._writer.start()

    @classmethod
    async def open(cls, path: Path | None, identity: ServerIdentity = KUBESIM) -> Self:
        """Open a data directory, and make it if it is not there. None: in memory, with nothing on disk."""
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
        """Wait for what is under way, and close the file."""
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()  # whatever it had to say came before that it has ended
        self._notifier.notify_all()
        self._log.close()
        if self._holder:
            self._holder.release()

    def announce(self, address: str) -> None:
        """Let others who want the data directory know where its holder is to be found."""
        if self._holder:
            self._holder.announce(address)

    # ---- reading ------------------------------------------------------------------------------------

    def get(self, key: str) -> Record | None:
        """What readers see of a key."""
        revision = self._revisions.get(key)
        return None if revision is None else Record(key, revision, self._value(key, revision))

    def latest(self, key: str) -> Record | None:
        """The newest state of a key, commits under way included: what a write is judged against."""
        write = self._latest.get(key)
        if write is None:
            return self.get(key)
        return None if write.line.deleted else Record(key, write.line.revision, write.line.value)

    def list_latest(self, prefix: str) -> Iterator[Record]:
        """``latest`` of every key under a prefix; those under way come last."""
        under_way = [(key, write.line) for key, write in self._latest.items() if key.startswith(prefix)]
        passed_over = {key for key, _ in under_way}
        yield from (record for record in self.list(prefix).records if record.key not in passed_over)
        yield from (Record(key, line.revision, line.value) for key, line in under_way if not line.deleted)

    @property
    def failures(self) -> int:
        """How often a commit has failed: ``latest`` then went back to what readers see."""
        return self._epoch

    def count(self, prefix: str) -> int:
        """How many keys there are under a prefix."""
        return self._keys.count(prefix)

    def list(self, prefix: str, *, at: int | None = None, after: str = "", limit: int = 0) -> Page:
        """What is under a prefix, in the order of the keys, now or as of an older revision.

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
        """The changes under a prefix beyond a revision, and the revision up to which they are all there is.

        There may be more although few or none came back: ask again from the revision returned. What is still in
        memory is answered although it is compacted, so that no compaction cuts off a watcher that missed nothing.
        """
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
        """The value before a change, for as long as the history is kept."""
        value = self._cache.get(revision)
        if value is None:
            value = self._log.value(revision)
            if value is None:
                raise Compacted(revision, self.compacted)
        return value

    async def wait(self, prefix: str, after: int, timeout: float | None = None) -> bool:
        """Wait until something changes under a prefix beyond a revision; whether it did in so many seconds.

        True also if that is not known without looking into the log: ``changes`` will tell.
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
        return after < self.revision and (after < self._recent.floor(prefix) or bool(self._recent.since(prefix, after)))

    # ---- writing ------------------------------------------------------------------------------------

    def put(self, key: str, encode: Callable[[int], bytes], *, expected: int) -> asyncio.Future[Record]:
        """Write a key whose newest revision is ``expected`` (0: it does not exist), else raise Stale.

        ``encode`` makes the value for the revision that it gets.
        """
        return self._write(key, encode, expected, deleted=False)

    def delete(self, key: str, encode: Callable[[int], bytes], *, expected: int) -> asyncio.Future[Record]:
        """Remove a key whose newest revision is ``expected``; ``encode`` makes its last state, for watchers."""
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
        self._writer.submit(write)
        return write.future

    async def wait_for_commits(self) -> None:
        """Wait until everything that is under way now is on disk. StorageFailed if it never will be."""
        if self._pending:
            epoch = self._epoch
            await asyncio.wait([self._pending[-1].future])
            if epoch != self._epoch:
                raise StorageFailed("what this answer rests on was not written")

    def _committed(self, batch: Batch) -> None:
        """A batch is on disk: show it to readers and watchers, then tell the writers."""
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
            if not write.future.done():  # the one who waited may have gone
                line = write.line
                write.future.set_result(Record(line.key, line.revision, line.value))
        for write in batch:
            self._notifier.notify(write.line.key)

    def _failed(self, error: Exception) -> None:
        """A batch is not on disk: take back everything under way, for all of it was judged by that batch."""
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
        """Let go of the history before a revision. Returns when it is removed."""
        if revision > self.revision:
            raise ValueError(f"revision {revision} is yet to come: the newest is {self.revision}")
        if self._closed:
            raise StorageFailed("the store is closed")
        self.compacted = max(self.compacted, revision)  # at once: nobody begins to read what is about to go
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
