"""The log's file: what it refuses, and that compaction can stop and go on anywhere."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kubesim.identity import ServerIdentity
from kubesim.storage.errors import DataDamaged
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log
from tests.kubesim.storage.store_helpers import line


def test_commits_are_synced(tmp_path: Path) -> None:
    log = Log(tmp_path / "kubesim.db")
    settings = {
        name: log._writing.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "page_size")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "page_size": 8192}  # 2: FULL
    log.close()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("CREATE TABLE songs (name TEXT)", "is the database of something else"),
        ("CREATE TABLE log (x); CREATE TABLE meta (name, value)", "is the database of something else"),
        (
            "CREATE TABLE log (x); CREATE TABLE meta (name, value); INSERT INTO meta VALUES ('format', 3)",
            "was written by a newer kubesim: its format is 3, this one knows up to 2",
        ),
        (
            "CREATE TABLE log (x); CREATE TABLE meta (name, value); INSERT INTO meta VALUES ('format', 2)",
            "cannot be read: 'compacted'",
        ),
    ],
)
def test_other_databases_are_refused(tmp_path: Path, script: str, complaint: str) -> None:
    path = tmp_path / "kubesim.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    with pytest.raises(DataDamaged) as refused:
        Log(path)
    assert str(refused.value) == f"{path} {complaint}"


def test_errors_name_the_product_and_its_command_that_checks_data(tmp_path: Path) -> None:
    acme = ServerIdentity(title="Acme", check_command="acme check")
    path = tmp_path / "kubesim.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE log (x); CREATE TABLE meta (name, value)")
        connection.executescript("INSERT INTO meta VALUES ('format', 2)")
        with pytest.raises(DataDamaged, match=r"cannot be read: 'compacted'; `acme check` says more$"):
            Log(path, acme)
        connection.executescript("UPDATE meta SET value = 3")
        with pytest.raises(DataDamaged, match="written by a newer Acme"):
            Log(path, acme)


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataDamaged, match="cannot be opened"):
        Log(tmp_path / "missing" / "kubesim.db")


def test_torn_pages_are_found_when_opened_or_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "kubesim.db"
    log = Log(path)
    log.append([line(revision, f"nodes/{revision:04}") for revision in range(1, 500)])
    log.close()
    content = bytearray(path.read_bytes())
    content[2 * 8192 : 4 * 8192] = b"\xff" * (2 * 8192)
    path.write_bytes(content)
    with pytest.raises(DataDamaged, match="cannot be read"):
        read_all(path)
    assert check_directory(tmp_path) != []


def read_all(path: Path) -> None:
    with closing(Log(path)) as log:
        log.current()


def test_empty_file_is_not_taken_for_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "kubesim.db").touch()
    with pytest.raises(DataDamaged, match="is empty: restore it from a backup"):
        Log(tmp_path / "kubesim.db")
    assert (tmp_path / "kubesim.db").stat().st_size == 0


def test_log_that_was_not_completed_is_made(tmp_path: Path) -> None:
    for left in ("kubesim.db", "kubesim.db.unfinished"):  # its maker was killed
        (tmp_path / left).touch()
    log = Log(tmp_path / "kubesim.db")
    assert (log.newest, log.compacted, log.current()) == (0, 0, {})
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubesim.db", "kubesim.db-newest"]


def test_sweep_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "kubesim.db"
    log = Log(path)
    # a: 1, 3, 5, 7; b: 2, deleted by 4, back with 6; c: 8, deleted by 9.
    log.append([line(1, "nodes/a"), line(2, "nodes/b"), line(3, "nodes/a", 1), line(4, "nodes/b", 2, deleted=True)])
    log.append([line(5, "nodes/a", 3), line(6, "nodes/b"), line(7, "nodes/a", 5), line(8, "nodes/c")])
    log.append([line(9, "nodes/c", 8, deleted=True)])
    log.compact(9)
    left = []
    going = True
    while going:
        going = log.sweep(at_once=1)
        left.append([head.revision for head in log.heads(0, 100, 100)])
        assert log.current() == {"nodes/a": 7, "nodes/b": 6}
        log.close()
        assert check_directory(tmp_path) == []
        log = Log(path)
        assert (log.newest, log.compacted) == (9, 9)
    # Each step removes what one line superseded: 3 removes 1; 4 removes 2 and itself; 5 removes 3; 7 removes 5;
    # 9 removes 8 and itself; the last one finds that there is nothing more.
    assert left == [
        [2, 3, 4, 5, 6, 7, 8, 9],
        [3, 5, 6, 7, 8, 9],
        [5, 6, 7, 8, 9],
        [6, 7, 8, 9],
        [6, 7],
    ]
    assert not log.sweep()
    log.close()


def test_space_of_what_was_removed_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "kubesim.db"
    log = Log(path)
    revision, sizes = 0, []
    for _ in range(6):
        batch = []
        for _ in range(500):
            revision += 1
            batch.append(line(revision, "nodes/a", revision - 1))
        log.append(batch)
        log.compact(revision)
        while log.sweep():
            pass
        log._writing.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes.append(path.stat().st_size)
    assert sizes[-1] == sizes[1]
    log.close()
