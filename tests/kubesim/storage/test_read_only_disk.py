"""A file system that turns read-only while the store is open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubesim.storage import StorageFailed, Store
from kubesim.storage.fsck import check_directory
from tests.kubesim.storage.store_helpers import put
from tests.support.processes import run_process


def test_reads_go_on_and_writes_again_later(tmp_path: Path) -> None:
    async def story() -> None:
        store = await Store.open(tmp_path)
        await put(store, "nodes/a")
        store._log._writing.execute("PRAGMA query_only = ON")  # what SQLite then says is the same
        with pytest.raises(StorageFailed, match="attempt to write a readonly database"):
            await put(store, "nodes/b")
        assert store.get("nodes/a") is not None and store.get("nodes/b") is None
        store._log._writing.execute("PRAGMA query_only = OFF")
        assert await put(store, "nodes/b") > 1
        await store.close()

    asyncio.run(story())
    assert check_directory(tmp_path) == []


@pytest.mark.long
@pytest.mark.process
def test_file_system_that_is_mounted_again_read_only(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    if run_process(["mount", "-t", "tmpfs", "-o", "size=16m", "none", place], capture_output=True).returncode:
        pytest.skip("may not mount here")

    def mount(how: str) -> None:
        run_process(["mount", "-o", f"remount,{how}", place], check=True)

    async def story() -> None:
        store = await Store.open(place / "data")
        await put(store, "nodes/a")
        # The kernel refuses to remount while files are open for writing, as a disk with errors does not; so the store
        # is opened on a read-only file system too.
        await store.close()
        mount("ro")
        with pytest.raises(StorageFailed, match="cannot be"):
            await Store.open(place / "data")
        assert check_directory(place / "data") == []
        mount("rw")
        store = await Store.open(place / "data")
        assert store.get("nodes/a") is not None
        await put(store, "nodes/b")
        await store.close()

    try:
        asyncio.run(story())
    finally:
        run_process(["umount", place], check=True)
