"""The store, one promise at a time. ``test_store_model`` has them all at once, in any order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubesim.storage import Compacted, DataDamaged, DataInUse, RevisionConflict, StorageFailed, Store
from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry
from kubesim.storage.watch_cache import WARM
from tests.kubesim.storage.store_helpers import delete, encoder, put


@asynccontextmanager
async def opened(path: Path | None = None, log: Log | None = None) -> AsyncIterator[Store]:
    store = Store(log) if log else await Store.open(path)
    try:
        yield store
    finally:
        await store.close()


class Held(Log):
    """A log whose commits wait until they are let go."""

    def __init__(self) -> None:
        super().__init__(None)
        self.go = threading.Event()
        self.batches: list[int] = []

    def append(self, batch: Sequence[LogEntry]) -> None:
        assert self.go.wait(20)
        self.batches.append(len(batch))
        super().append(batch)


def test_write_is_latest_at_once_and_visible_once_on_disk() -> None:
    async def story() -> None:
        log = Held()
        async with opened(log=log) as store:
            future = store.put("nodes/a", encoder("nodes/a"), expected=0)
            latest = store.latest("nodes/a")
            assert latest is not None and latest.revision == 1
            assert store.get("nodes/a") is None and store.revision == 0
            assert store.count("nodes/") == 0 and store.list("nodes/").records == []
            assert store.changes("nodes/", 0, 10) == ([], 0)
            log.go.set()
            record = await future
            assert store.get("nodes/a") == record == latest
            assert store.revision == 1

    asyncio.run(story())


def test_writes_during_commit_are_batched_and_answered_in_order() -> None:
    async def story() -> None:
        log = Held()
        async with opened(log=log) as store:
            answered: list[int] = []
            futures = []
            for name in range(50):
                future = store.put(f"nodes/{name}", encoder(f"nodes/{name}"), expected=0)
                future.add_done_callback(lambda done: answered.append(done.result().revision))
                futures.append(future)
                if not name:
                    await asyncio.sleep(0.05)  # let the first one be taken alone
            log.go.set()
            await asyncio.gather(*futures)
            assert answered == list(range(1, 51))
            # However the first ones were taken: the rest had all come in before the first commit could end.
            assert sum(log.batches) == 50 and len(log.batches) <= 3

    asyncio.run(story())


def test_stale_write_is_refused_at_once_and_costs_no_revision() -> None:
    async def story() -> None:
        async with opened() as store:
            await put(store, "nodes/a")
            for expected in (0, 2, 7):
                with pytest.raises(RevisionConflict) as refused:
                    await store.put("nodes/a", encoder("nodes/a"), expected=expected)
                assert (refused.value.key, refused.value.expected, refused.value.found) == ("nodes/a", expected, 1)
            with pytest.raises(RevisionConflict):
                await store.delete("nodes/b", encoder("nodes/b"), expected=0)
            assert await put(store, "nodes/a") == 2

    asyncio.run(story())


def test_write_is_judged_by_what_is_under_way() -> None:
    async def story() -> None:
        log = Held()
        async with opened(log=log) as store:
            first = store.put("nodes/a", encoder("nodes/a", 1), expected=0)
            gone = store.delete("nodes/a", encoder("nodes/a", 2), expected=1)
            assert store.latest("nodes/a") is None
            with pytest.raises(RevisionConflict):
                await store.put("nodes/a", encoder("nodes/a"), expected=1)
            again = store.put("nodes/a", encoder("nodes/a", 3), expected=0)
            log.go.set()
            assert [(await future).revision for future in (first, gone, again)] == [1, 2, 3]
            changes, _ = store.changes("", 0, 10)
            assert [(change.before, change.deleted) for change in changes] == [(0, False), (1, True), (0, False)]

    asyncio.run(story())


def test_encoder_that_raises_leaves_no_trace() -> None:
    def broken(revision: int) -> bytes:
        raise ZeroDivisionError

    async def story() -> None:
        async with opened() as store:
            with pytest.raises(ZeroDivisionError):
                await store.put("nodes/a", broken, expected=0)
            assert store.latest("nodes/a") is None
            assert await put(store, "nodes/b") == 1

    asyncio.run(story())


def test_writer_that_left_does_not_hold_up_others() -> None:
    async def story() -> None:
        log = Held()
        async with opened(log=log) as store:
            left = store.put("nodes/a", encoder("nodes/a"), expected=0)
            stays = store.put("nodes/b", encoder("nodes/b"), expected=0)
            left.cancel()
            log.go.set()
            assert (await stays).revision == 2
            assert store.get("nodes/a") is not None  # it was queued, so it was written

    asyncio.run(story())


def test_pages_of_one_revision_while_others_write() -> None:
    async def story() -> None:
        async with opened() as store:
            for name in "abcdef":
                await put(store, f"pods/x/{name}", "old")
            await put(store, "pods/y/a")
            first = store.list("pods/x/", limit=2)
            assert [record.key for record in first.records] == ["pods/x/a", "pods/x/b"]
            assert (first.revision, first.remaining, first.last_key) == (7, 4, "pods/x/b")
            await delete(store, "pods/x/c")
            await put(store, "pods/x/d", "new")
            await put(store, "pods/x/dd", "new")
            second = store.list("pods/x/", at=first.revision, after=first.last_key, limit=3)
            assert [(record.key, record.revision) for record in second.records] == [
                ("pods/x/c", 3),
                ("pods/x/d", 4),
                ("pods/x/e", 5),
            ]
            assert b'"old"' in second.records[1].value
            assert (second.revision, second.remaining) == (7, 1)
            assert [record.key for record in store.list("pods/x/").records] == [
                f"pods/x/{n}" for n in ["a", "b", "d", "dd", "e", "f"]
            ]
            with pytest.raises(ValueError, match="yet to come"):
                store.list("pods/x/", at=11)

    asyncio.run(story())


def test_compaction_ends_history_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as store:
            await put(store, "nodes/a", 1)
            await put(store, "nodes/a", 2)
            await put(store, "nodes/b")
            await delete(store, "nodes/b")
            await store.compact(4)
        async with opened(tmp_path) as store:  # nothing in memory any more
            assert (store.revision, store.compacted) == (4, 4)  # although the line of revision 4 is gone
            assert [record.revision for record in store.list("").records] == [2]
            for after in (0, 3):
                with pytest.raises(Compacted) as gone:
                    store.changes("nodes/", after, 10)
                assert (gone.value.revision, gone.value.compacted) == (after, 4)
                with pytest.raises(Compacted):
                    store.list("nodes/", at=after)
            assert store.changes("nodes/", 4, 10) == ([], 4)
            assert await put(store, "nodes/b") == 5
            with pytest.raises(ValueError, match="yet to come"):
                await store.compact(6)

    asyncio.run(story())


def test_compaction_does_not_cut_off_who_missed_nothing() -> None:
    async def story() -> None:
        async with opened() as store:
            await put(store, "queues/q")
            for _ in range(5000):  # more than memory keeps
                last = store.put("pods/x/a", encoder("pods/x/a"), expected=_ + 1 if _ else 0)
            await last
            await store.compact(store.revision)
            assert store.changes("queues/", 1, 10) == ([], 5001)
            await put(store, "queues/q")
            changes, complete = store.changes("queues/", 1, 10)
            assert [change.revision for change in changes] == [5002] and complete == 5002
            with pytest.raises(Compacted):
                store.changes("pods/", 1, 10)

    asyncio.run(story())


def test_changes_know_what_was_before_and_are_shared() -> None:
    async def story() -> None:
        async with opened() as store:
            await put(store, "nodes/a", 1)
            await put(store, "nodes/a", 2)
            await delete(store, "nodes/a")
            (created, changed, deleted), complete = store.changes("nodes/", 0, 10)
            assert complete == 3
            assert created.previous is None and created.old is None and created.object["mark"] == 1
            assert changed.previous == created.value and changed.old == created.object
            assert deleted.deleted and deleted.old == changed.object
            assert deleted.object == {"metadata": {"name": "a", "resourceVersion": "3"}, "mark": "deleted"}
            (again,), _ = store.changes("", 1, 1)
            assert again is changed and again.object is changed.object
            cold = created.object
            for _ in range(WARM):
                await put(store, "nodes/b")
            assert created.object == cold and created.object is not cold
            await store.compact(store.revision)
            assert changed.previous is not None  # in the cache still
            (from_log,), _ = store.changes("nodes/", store.revision - 1, 1)
            assert from_log.key == "nodes/b"

    asyncio.run(story())


def test_waiting_for_a_change() -> None:
    async def story() -> None:
        async with opened() as store:
            waiting = [
                asyncio.create_task(store.wait(prefix, after, timeout))
                for prefix, after, timeout in [
                    ("", 0, None),
                    ("pods/", 0, 20),
                    ("pods/x/", 0, 20),
                    ("pods/x/", 1, 20),
                    ("pods/y/", 0, 0.05),
                    ("nodes/", 0, None),
                ]
            ]
            await asyncio.sleep(0)
            await put(store, "pods/x/a")
            assert await asyncio.gather(*waiting[:3]) == [True, True, True]
            assert await waiting[4] is False
            assert not waiting[3].done()
            await put(store, "pods/x/a")
            assert await waiting[3] is True
            assert await store.wait("pods/x/", 1) is True
            assert await store.wait("pods/x/", 2, 0) is False
            with pytest.raises(ValueError, match="slash"):
                await store.wait("pods/x", 2, 0)
            waiting[5].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[5]
            last = asyncio.create_task(store.wait("nodes/", 0))
            await asyncio.sleep(0)
        with pytest.raises(StorageFailed):  # the store is closed: nothing will come any more
            await last

    asyncio.run(story())


@pytest.mark.parametrize("on_disk", [True, False])
def test_closed_store_finishes_what_was_under_way(tmp_path: Path, on_disk: bool) -> None:
    async def story() -> None:
        store = await Store.open(tmp_path if on_disk else None)
        futures = [store.put(f"nodes/{n}", encoder(f"nodes/{n}"), expected=0) for n in range(300)]
        await store.close()
        assert [future.result().revision for future in futures] == list(range(1, 301))
        with pytest.raises(StorageFailed, match="closed"):
            await store.put("nodes/x", encoder("nodes/x"), expected=0)
        with pytest.raises(StorageFailed, match="closed"):
            await store.compact(1)
        await store.close()
        if on_disk:
            async with opened(tmp_path) as again:
                assert (again.count("nodes/"), again.revision) == (300, 300)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["kubesim.db", "kubesim.db-newest", "lock"]

    asyncio.run(story())


def test_in_memory_store_writes_nothing_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened() as store, opened() as other:
            await put(store, "nodes/a")
            assert other.get("nodes/a") is None
            assert list(tmp_path.iterdir()) == []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


def test_data_directory_has_one_holder(tmp_path: Path) -> None:
    async def story() -> None:
        data = tmp_path / "not" / "there" / "yet"
        async with opened(data) as store:
            store.announce("http://127.0.0.1:8001")
            with pytest.raises(DataInUse, match=r"held by kubesim, process \d+, since 2.*Z, at http://127.0.0.1:8001"):
                await Store.open(data)
            await put(store, "nodes/a")
        async with opened(data) as store:
            assert store.revision == 1

    asyncio.run(story())


def test_refused_file_is_left_alone_and_not_held(tmp_path: Path) -> None:
    database = tmp_path / "kubesim.db"
    database.write_bytes(b"these are not the bytes of a database" * 200)
    before = database.read_bytes()
    for _ in range(2):  # the second time, the first one must have let go of the directory
        with pytest.raises(DataDamaged, match=r"cannot be read: file is not a database$"):
            asyncio.run(Store.open(tmp_path))
    assert database.read_bytes() == before


def test_values_do_not_stay_in_memory(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as store:
            big = b"x" * (1 << 20)
            for name in range(20):
                await store.put(f"configmaps/x/{name}", lambda revision: big + str(revision).encode(), expected=0)
            assert store._cache._bytes <= 8 << 20 and len(store._cache._values) == 7
            assert store._recent._bytes <= 4 << 20 and len(store._recent._all) == 3
            records = store.list("configmaps/x/").records
            assert [int(record.value[1 << 20 :]) for record in records] == [record.revision for record in records]
            changes, complete = store.changes("configmaps/x/", 0, 30)
            assert [change.revision for change in changes] == list(range(1, 21)) and complete == 20

    asyncio.run(story())
