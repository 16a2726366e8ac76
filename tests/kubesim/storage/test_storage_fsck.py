"""Each kind of damage is found, and named by where it is."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kubesim.storage import DataDamaged, Store
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log
from kubesim.storage.log_entries import checksum_of
from tests.kubesim.storage.store_helpers import line, put

INSERT = "INSERT INTO log (revision, key, previous, deleted, value) VALUES"
A_AT_1 = '{"metadata":{"name":"a","resourceVersion":"1"}}'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """a: 1, 3, 5; b: 2, deleted by 4, back with 6; c in a namespace: 7, 8. Compacted and swept up to 4."""
    log = Log(tmp_path / "kubesim.db")
    log.append([line(1, "nodes/a"), line(2, "nodes/b"), line(3, "nodes/a", 1), line(4, "nodes/b", 2, deleted=True)])
    log.append([line(5, "nodes/a", 3), line(6, "nodes/b"), line(7, "pods/x/c"), line(8, "pods/x/c", 7)])
    log.compact(4)
    assert not log.sweep()
    log.close()
    return tmp_path


def damage(data: Path, script: str) -> list[str]:
    """What is found after a change by hand that also set the checksums right."""
    with closing(sqlite3.connect(data / "kubesim.db")) as connection:
        connection.executescript(script)
        if "DROP TABLE" not in script:
            connection.create_function("checksum_of", 5, lambda *line: checksum_of(*line[:4], line[4].encode()))
            line = "revision, key, previous, deleted, CAST(value AS TEXT)"
            connection.execute(f"UPDATE log SET checksum = checksum_of({line})")
            connection.commit()
    return [str(finding) for finding in check_directory(data)]


def test_clean(data: Path) -> None:
    before = (data / "kubesim.db").read_bytes()
    assert check_directory(data) == []
    assert (data / "kubesim.db").read_bytes() == before


@pytest.mark.parametrize(
    ("script", "findings"),
    [
        ("DELETE FROM log WHERE revision = 3", ["revision 5 of nodes/a: it continues revision 3, which is not there"]),
        ("DELETE FROM log WHERE revision = 7", ["revision 8 of pods/x/c: it continues revision 7, which is not there"]),
        (
            "UPDATE log SET previous = 1 WHERE revision = 5",
            ["revision 5 of nodes/a: it continues revision 1, but the one before is 3"],
        ),
        (
            "UPDATE log SET previous = 0 WHERE revision = 8",
            ["revision 8 of pods/x/c: it continues revision 0, but the one before is 7"],
        ),
        (
            "UPDATE log SET previous = 9 WHERE revision = 6",
            ["revision 6 of nodes/b: it continues revision 9, which is not older"],
        ),
        (
            "UPDATE log SET deleted = 1, previous = 0 WHERE revision = 6",
            ["revision 6 of nodes/b: it deletes what did not exist"],
        ),
        (
            "UPDATE log SET deleted = 1 WHERE revision = 7",
            [
                "revision 7 of pods/x/c: it deletes what did not exist",
                "revision 8 of pods/x/c: it continues revision 7, but revision 7 deleted it",
            ],
        ),
        (
            f"{INSERT} (1, 'nodes/a', 0, 0, '{A_AT_1}')",  # as text
            [
                "revision 1 of nodes/a: its columns have values of wrong types",
                "revision 3 of nodes/a: revision 1 before it should have been removed: it is swept up to 4",
            ],
        ),
        (
            f"{INSERT} (1, 'nodes/a', 0, 0, CAST('{A_AT_1}' AS BLOB))",
            ["revision 3 of nodes/a: revision 1 before it should have been removed: it is swept up to 4"],
        ),
        (
            "INSERT INTO log SELECT 4, 'nodes/b', 2, 1, value, 0 FROM log WHERE revision = 6",
            [
                "revision 4 of nodes/b: its value says resourceVersion '6'",
                "revision 4 of nodes/b: a deletion that should have been removed: it is swept up to 4",
            ],
        ),
        (
            "UPDATE log SET key = 'nodes/z' WHERE revision = 6",
            ["revision 6 of nodes/z: its value says name 'b', no namespace"],
        ),
        (
            "UPDATE log SET key = 'pods/y/c' WHERE revision > 6",
            [
                "revision 7 of pods/y/c: its value says name 'c', namespace 'x'",
                "revision 8 of pods/y/c: its value says name 'c', namespace 'x'",
            ],
        ),
        (
            "UPDATE log SET value = CAST('what' AS BLOB) WHERE revision = 6",
            ["revision 6 of nodes/b: its value is not an object: JSON is malformed: invalid character (byte 0)"],
        ),
        (
            "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 6",
            ["revision 6 of nodes/b: its value is not an object: Object missing required field `metadata`"],
        ),
        (
            "UPDATE meta SET value = 5 WHERE name = 'swept'",
            ["meta: swept up to revision 5, which is beyond what is compacted, 4"],
        ),
        ("DELETE FROM meta WHERE name = 'swept'", ["meta: swept is None, not a revision"]),
        ("UPDATE meta SET value = 'x' WHERE name = 'compacted'", ["meta: compacted is 'x', not a revision"]),
    ],
)
def test_damage_is_found(data: Path, script: str, findings: list[str]) -> None:
    assert damage(data, script) == findings


def test_torn_page_is_found(data: Path) -> None:
    path = data / "kubesim.db"
    content = bytearray(path.read_bytes())
    content[8192 : 8192 + 512] = b"\xa5" * 512  # the second page is the root of the log
    path.write_bytes(content)
    assert check_directory(data) != []


def test_header_of_the_file_is_gone(data: Path) -> None:
    path = data / "kubesim.db"
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    assert [str(finding) for finding in check_directory(data)] == [
        "SQLite cannot read kubesim.db: file is not a database"
    ]


def test_number_of_findings_is_bounded(data: Path) -> None:
    damage(data, "UPDATE log SET value = CAST('{}' AS BLOB)")
    assert len(check_directory(data)) == 5
    assert len(check_directory(data, most=2)) == 2


def test_directory_in_use_can_be_checked(tmp_path: Path) -> None:
    async def story() -> None:
        store = await Store.open(tmp_path)
        for number in range(20):
            await put(store, f"nodes/{number}")
            assert check_directory(tmp_path) == []
        await put(store, "nodes/0")
        await store.close()

    asyncio.run(story())


def test_file_that_is_no_log_is_refused(data: Path) -> None:
    with pytest.raises(DataDamaged, match="newer kubesim: its format is 7"):
        damage(data, "UPDATE meta SET value = 7 WHERE name = 'format'")
    with pytest.raises(DataDamaged, match="something else"):
        damage(data, "DROP TABLE meta")
    (data / "kubesim.db").write_bytes(b"")
    with pytest.raises(DataDamaged, match="is empty"):
        check_directory(data)
