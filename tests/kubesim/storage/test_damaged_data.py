"""Flipped bits, lost write-ahead logs and old formats: what is served was written, and all else is reported."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kubesim.identity import ServerIdentity
from kubesim.storage import DataDamaged, DataInUse, Store
from kubesim.storage.backup import back_up, restore
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log
from kubesim.storage.newest_revision import newest_path
from kubesim.storage.repair import repair_directory
from tests.kubesim.storage.store_helpers import encoder, line, put

DATABASE = "kubesim.db"
FORMAT_1 = """
CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, previous INTEGER NOT NULL, deleted INTEGER NOT NULL,
                  value BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('format', 1), ('compacted', 0), ('swept', 0);
"""


def served(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """What a start on a data directory serves, and the keys that it sets aside."""

    async def story() -> tuple[dict[str, bytes], list[str]]:
        store = await Store.open(folder)
        found = {record.key: record.value for record in store.list("").records}
        aside = [one.key for one in store.set_aside]
        await store.close()
        return found, aside

    return asyncio.run(story())


def fill(folder: Path, count: int = 40) -> dict[str, bytes]:
    """A data directory with objects, each in its second revision."""
    log = Log(folder / DATABASE)
    log.append([line(number, f"nodes/n{number:03}") for number in range(1, count + 1)])
    log.append([line(count + number, f"nodes/n{number:03}", number) for number in range(1, count + 1)])
    log.close()
    return {f"nodes/n{number:03}": encoder(f"nodes/n{number:03}")(count + number) for number in range(1, count + 1)}


def change(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.executescript(script)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def test_flipped_bits_are_never_served_and_never_silent(data: Path, tmp_path: Path) -> None:
    written = fill(data)
    clean = (data / DATABASE).read_bytes()
    values = [clean.index(value) + 20 for value in written.values()]  # for sure in an object
    choose = random.Random(19)
    set_aside = refused = 0
    for place in [*values[::4], *(choose.randrange(len(clean)) for _ in range(120))]:
        content = bytearray(clean)
        content[place] ^= 1 << choose.randrange(8)
        copy = tmp_path / "copy"
        shutil.copytree(data, copy)
        (copy / DATABASE).write_bytes(content)
        before = check_directory(copy) if content[:16] == clean[:16] else ["not a database"]
        try:
            found, aside = served(copy)
        except DataDamaged:
            refused += 1
            assert before
        else:
            set_aside += bool(aside)
            # What is served was written. Damage of SQLite's own pages can hide the newest entry, not from the check.
            assert all(value in {written[key], encoder(key)(int(key[-3:]))} for key, value in found.items())
            assert found == written or before
        shutil.rmtree(copy)
    assert set_aside >= len(values[::4]) and refused


def test_damaged_object_is_set_aside_and_all_others_are_served(data: Path) -> None:
    written = fill(data)
    change(data, "UPDATE log SET value = CAST(replace(value, 'mark', 'mask') AS BLOB) WHERE revision = 77")
    found, aside = served(data)
    assert aside == ["nodes/n037"] and found == {key: v for key, v in written.items() if key != "nodes/n037"}
    assert [str(finding) for finding in check_directory(data)] == [
        "revision 77 of nodes/n037: it does not match its checksum: the disk has changed it"
    ]


def test_object_that_was_set_aside_can_be_created_anew(data: Path) -> None:
    fill(data)
    change(data, "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 77")

    async def story() -> None:
        store = await Store.open(data)
        assert store.get("nodes/n037") is None
        assert await put(store, "nodes/n037", "anew") == 81
        await store.close()

    asyncio.run(story())
    found, aside = served(data)
    assert b"anew" in found["nodes/n037"] and not aside


def test_value_that_is_damaged_while_it_is_in_use_is_not_served(data: Path) -> None:
    fill(data)

    async def story() -> None:
        store = await Store.open(data)
        change(data, "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 77")
        with pytest.raises(DataDamaged, match=r"revision 77 of nodes/n037 in .* is damaged"):
            store.get("nodes/n037")
        assert store.get("nodes/n036") is not None
        await store.close()

    asyncio.run(story())


# ---- the write-ahead log ------------------------------------------------------------------------------------------


@pytest.fixture
def killed(data: Path, tmp_path: Path) -> Path:
    """A data directory as a killed process leaves it: ten commits in the write-ahead log."""
    log = Log(data / DATABASE)
    for number in range(1, 11):
        log.append([line(number, f"nodes/n{number:03}")])
    folder = tmp_path / "killed"
    shutil.copytree(data, folder)
    log.close()
    return folder


def test_commits_that_a_damaged_write_ahead_log_has_lost_are_missed(killed: Path, tmp_path: Path) -> None:
    wal = killed / f"{DATABASE}-wal"
    clean = wal.read_bytes()
    lost = 0
    for cut, content in [(place, clean[:place]) for place in range(0, len(clean), 4096)] + [
        (place, clean[:place] + bytes([clean[place] ^ 4]) + clean[place + 1 :]) for place in range(32, len(clean), 5000)
    ]:
        copy = tmp_path / "copy"
        shutil.copytree(killed, copy)
        (copy / wal.name).write_bytes(content)
        said = ""
        try:
            found, aside = served(copy)
        except DataDamaged as error:
            said = str(error)
        assert check_directory(copy) if said else len(found) == 10 and not aside, cut
        lost += "revision 10 was committed: the writes after" in said
        shutil.rmtree(copy)
    assert lost > 10


def test_after_a_power_loss_an_older_note_is_no_loss(killed: Path) -> None:
    for content in (b"", b"nonsense", newest_path(killed / DATABASE).read_bytes()[:-3]):
        newest_path(killed / DATABASE).write_bytes(content)
        assert len(served(killed)[0]) == 10


def test_repair_goes_on_without_lost_commits_and_reuses_no_revision(killed: Path) -> None:
    wal = killed / f"{DATABASE}-wal"
    wal.write_bytes(wal.read_bytes()[: len(wal.read_bytes()) // 2])
    (finding,) = check_directory(killed)
    assert "revision 10 was committed" in str(finding)
    with pytest.raises(DataDamaged, match=r"restore a backup, or go on without what is lost: `acme mend`$"):
        Log(killed / DATABASE, ServerIdentity(repair_command="acme mend"))
    done = repair_directory(killed)
    assert done is not None and 0 < done.kept < 10 and done.damaged.exists()
    assert check_directory(killed) == []

    async def story() -> int:
        store = await Store.open(killed)
        assert store.count("nodes/") == done.kept
        revision = await put(store, "nodes/new")
        await store.close()
        return revision

    assert asyncio.run(story()) == 11
    assert repair_directory(killed) is None


# ---- repair -------------------------------------------------------------------------------------------------------


def test_repair_of_a_clean_or_missing_directory_changes_nothing(data: Path) -> None:
    assert repair_directory(data) is None
    assert list(data.iterdir()) == []
    fill(data)
    before = (data / DATABASE).read_bytes()
    assert repair_directory(data) is None
    assert (data / DATABASE).read_bytes() == before


def test_repair_drops_what_is_damaged_and_names_it(data: Path) -> None:
    written = fill(data)
    change(data, "DELETE FROM log WHERE revision = 37; UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 77")
    change(data, "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 78")
    done = repair_directory(data)
    assert done is not None and (done.kept, done.unreadable) == (39, 0)
    assert [(lost.key, lost.revision) for lost in done.dropped] == [("nodes/n037", 77), ("nodes/n038", 78)]
    found, aside = served(data)
    assert not aside and found.pop("nodes/n038") == encoder("nodes/n038")(38)  # as it was before
    assert found == {key: value for key, value in written.items() if key not in {"nodes/n037", "nodes/n038"}}
    assert check_directory(data) == []


def test_repair_reads_around_torn_pages(data: Path) -> None:
    written = fill(data, 400)
    content = bytearray((data / DATABASE).read_bytes())
    content[5 * 8192 : 6 * 8192] = b"\xa5" * 8192
    (data / DATABASE).write_bytes(content)
    with pytest.raises(DataDamaged, match="cannot be read"):
        served(data)
    done = repair_directory(data)
    assert done is not None and done.unreadable and done.kept > 300
    found, aside = served(data)
    assert not aside and check_directory(data) == []
    assert sum(written[key] == value for key, value in found.items()) > 300


def test_repair_of_a_file_that_is_no_database_says_that_only_a_backup_helps(data: Path) -> None:
    fill(data)
    (data / DATABASE).write_bytes(b"\0" * 100 + (data / DATABASE).read_bytes()[100:])
    newest_path(data / DATABASE).unlink()
    with pytest.raises(DataDamaged, match="nothing can be read of it: restore a backup"):
        repair_directory(data)
    assert (data / DATABASE).exists()


# ---- data of format 1 ---------------------------------------------------------------------------------------------


@pytest.fixture
def old(data: Path) -> Path:
    with closing(sqlite3.connect(data / DATABASE)) as connection:
        connection.executescript(FORMAT_1)
        rows = [tuple(line(number, f"nodes/n{number:03}")) for number in range(1, 6)]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
    return data


def test_data_without_checksums_are_opened_and_new_entries_have_one(old: Path) -> None:
    assert check_directory(old) == []
    found, aside = served(old)
    assert (len(found), aside) == (5, [])

    async def story() -> None:
        store = await Store.open(old)
        assert store.checksums_after == 5
        assert await put(store, "nodes/n003", "new") == 6
        await store.close()

    asyncio.run(story())
    assert check_directory(old) == [] and len(served(old)[0]) == 5
    change(old, "UPDATE log SET checksum = NULL WHERE revision = 6")
    assert served(old)[1] == ["nodes/n003"] and len(check_directory(old)) == 1


def test_old_entry_that_is_no_object_is_set_aside(old: Path) -> None:
    change(old, "UPDATE log SET value = CAST('[]' AS BLOB) WHERE revision = 2")
    found, aside = served(old)
    assert (len(found), aside) == (4, ["nodes/n002"])
    done = repair_directory(old)
    assert done is not None and done.kept == 4 and check_directory(old) == []


# ---- backup and restore -------------------------------------------------------------------------------------------


def test_backup_while_in_use_has_everything_acknowledged_before(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "backup"

    async def story() -> None:
        store = await Store.open(data)
        for number in range(20):
            await put(store, f"nodes/{number}")
        back_up(data, copy)
        await put(store, "nodes/later")
        await store.close()

    asyncio.run(story())
    assert copy.stat().st_mode & 0o777 == 0o600
    restored = tmp_path / "restored"
    restore(copy, restored)
    found, aside = served(restored)
    assert len(found) == 20 and not aside and check_directory(restored) == []


def test_restore_replaces_nothing(data: Path, tmp_path: Path) -> None:
    fill(data)
    back_up(data, tmp_path / "backup")
    with pytest.raises(FileExistsError):
        back_up(data, tmp_path / "backup")
    with pytest.raises(FileExistsError):
        restore(tmp_path / "backup", data)

    async def story() -> None:
        store = await Store.open(data)
        with pytest.raises(DataInUse):
            restore(tmp_path / "backup", data)
        await store.close()

    asyncio.run(story())
    (data / DATABASE).rename(data / "old")  # what was committed after the backup is given up
    restore(tmp_path / "backup", data)
    assert len(served(data)[0]) == 40


def test_damaged_data_are_neither_backed_up_nor_restored(data: Path, tmp_path: Path) -> None:
    fill(data)
    back_up(data, tmp_path / "backup")
    change(data, "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 77")
    with pytest.raises(DataDamaged, match=r"kubesim\.db is damaged: revision 77 of nodes/n037"):
        back_up(data, tmp_path / "another")
    assert not (tmp_path / "another").exists()
    (tmp_path / "backup").write_bytes((tmp_path / "backup").read_bytes()[:-9000])
    with pytest.raises(DataDamaged):
        restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored" / DATABASE).exists()
