"""When the disk is full: what was not written is taken back, and the store goes on."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubesim.storage import StorageFailed, Store
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry
from tests.kubesim.storage.store_helpers import Failing, delete, encoder, line, put


class Fitful(Log):
    """A log that fails every other two times."""

    attempts = 0

    def append(self, batch: Sequence[LogEntry]) -> None:
        self.attempts += 1
        if self.attempts & 2:
            raise sqlite3.OperationalError("disk I/O error")
        super().append(batch)


def test_failed_commit_is_taken_back_with_everything_behind_it(tmp_path: Path) -> None:
    async def story() -> None:
        log = Failing(tmp_path / "kubesim.db")
        store = Store(log)
        await put(store, "nodes/a", "kept")
        await put(store, "nodes/b")
        log.full = True
        futures = [
            store.put("nodes/a", encoder("nodes/a", "lost"), expected=1),
            store.delete("nodes/b", encoder("nodes/b"), expected=2),
            store.put("nodes/c", encoder("nodes/c"), expected=0),
        ]
        behind = []

        def write_behind() -> None:
            # In the loop before it hears of the failure, and judged by what has failed.
            behind.append(store.put("nodes/c", encoder("nodes/c", "behind"), expected=5))

        asyncio.get_running_loop().call_soon(write_behind)
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(result, StorageFailed) for result in results)
        assert "revision 3 of nodes/a was not written: database or disk is full" in str(results[0])
        with pytest.raises(StorageFailed):
            await behind[0]
        # Reads go on, and are what is on disk.
        assert store.revision == 2
        for key, revision in (("nodes/a", 1), ("nodes/b", 2)):
            latest = store.latest(key)
            assert latest is not None and latest.revision == revision and latest == store.get(key)
        assert store.latest("nodes/c") is None and store.count("nodes/") == 2
        assert store.changes("", 2, 10) == ([], 2)
        # Writes succeed again as soon as they can; the revisions that were seen in latest() stay unused.
        with pytest.raises(StorageFailed):
            await put(store, "nodes/d")
        log.full = False
        assert await put(store, "nodes/c") == 8
        assert await delete(store, "nodes/b") == 9
        await store.close()
        assert check_directory(tmp_path) == []
        again = await Store.open(tmp_path)
        assert [(record.key, record.revision) for record in again.list("").records] == [("nodes/a", 1), ("nodes/c", 8)]
        assert await put(again, "nodes/d") == 10
        await again.close()

    asyncio.run(story())


class FailsFirst(Log):
    """A log whose first commit waits to be let go, and then fails."""

    def __init__(self) -> None:
        super().__init__(None)
        self.entered, self.go = threading.Event(), threading.Event()
        self.written: list[int] = []

    def append(self, batch: Sequence[LogEntry]) -> None:
        if not self.entered.is_set():
            self.entered.set()
            assert self.go.wait(20)
            raise sqlite3.OperationalError("disk I/O error")
        self.written += [line.revision for line in batch]
        super().append(batch)


def test_writes_queued_behind_failed_commit_fail_without_being_written() -> None:
    async def story() -> None:
        log = FailsFirst()
        store = Store(log)
        first = store.put("nodes/a", encoder("nodes/a"), expected=0)
        assert log.entered.wait(20)  # the event loop stands still all the while
        second = store.put("nodes/a", encoder("nodes/a"), expected=1)
        other = store.put("nodes/b", encoder("nodes/b"), expected=0)
        log.go.set()
        while not store._writer._queue.empty():
            time.sleep(0.001)
        time.sleep(0.02)  # for a thread that would write it now
        assert log.written == []
        answers = await asyncio.gather(first, second, other, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StorageFailed] * 3
        assert await put(store, "nodes/a") == 4
        assert log.written == [4]
        await store.close()

    asyncio.run(story())


def test_failing_under_load_acknowledges_only_what_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        log = Fitful(tmp_path / "kubesim.db")
        store = Store(log)
        acknowledged: dict[str, int] = {}
        refused = 0

        async def write(name: int) -> None:
            nonlocal refused
            key = f"nodes/{name}"
            for _ in range(40):
                try:
                    acknowledged[key] = await put(store, key)
                except StorageFailed:
                    refused += 1

        await asyncio.gather(*(write(name) for name in range(12)))
        assert refused and acknowledged
        assert {record.key: record.revision for record in store.list("nodes/").records} == acknowledged
        await store.close()
        assert check_directory(tmp_path) == []

    asyncio.run(story())


def test_failed_compaction_says_so_and_is_done_by_the_next() -> None:
    async def story() -> None:
        log = Failing(None)
        store = Store(log)
        for _ in range(9):
            await put(store, "nodes/a")
        log.full = True
        with pytest.raises(StorageFailed, match="history up to revision 8 was not removed"):
            await store.compact(8)
        assert log.value(1) is not None
        log.full = False
        await asyncio.gather(store.compact(7), store.compact(9), put(store, "nodes/b"))
        assert [log.value(revision) is not None for revision in (1, 8, 9)] == [False, False, True]
        await store.close()

    asyncio.run(story())


def test_failed_batch_is_written_in_no_part(tmp_path: Path) -> None:
    """Whether a batch takes one statement or several; the real thing, not an injected error."""
    log = Log(tmp_path / "kubesim.db")
    log.append([line(1, "nodes/a")])
    for size in (1, 2, 3, 127, 200):
        # The last line repeats revision 1, which a primary key does not take.
        batch = [line(100 + number, f"nodes/{number}") for number in range(size - 1)] + [line(1, "nodes/b")]
        with pytest.raises(sqlite3.IntegrityError):
            log.append(batch)
        assert log.current() == {"nodes/a": 1}
    log.append([line(2, "nodes/b"), line(3, "nodes/c"), line(4, "nodes/d")])
    assert log.current() == {"nodes/a": 1, "nodes/b": 2, "nodes/c": 3, "nodes/d": 4}
    log.close()


def test_full_disk_of_sqlite_itself(tmp_path: Path) -> None:
    """SQLite told to let the file grow no further: the same error as a full disk, from the same place."""

    async def story() -> None:
        log = Log(tmp_path / "kubesim.db")
        store = Store(log)
        await put(store, "nodes/a")
        log._writing.execute("PRAGMA max_page_count = 12")
        big = "x" * 30_000
        written = 1

        async def fill() -> None:
            nonlocal written
            for number in range(100):
                await put(store, f"nodes/big{number}", big)
                written += 1

        with pytest.raises(StorageFailed, match="full"):
            await fill()
        assert store.count("nodes/") == written < 100
        log._writing.execute("PRAGMA max_page_count = 1000000")
        await asyncio.gather(*(put(store, f"nodes/more{number}", big) for number in range(10)))
        await store.close()
        assert check_directory(tmp_path) == []
        again = await Store.open(tmp_path)
        assert again.count("nodes/") == written + 10
        await again.close()

    asyncio.run(story())
