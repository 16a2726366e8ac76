"""Power loss: the files as they were synced last, and of what came after whatever the disk liked to keep.

The log is driven step by step, so it is known at each moment what is synced: SQLite syncs the write-ahead log at the
end of each commit, and the database at the end of a checkpoint, before the write-ahead log is written over. Between
two such moments the disk may keep any of the newer sectors, in any order, and of the last one some bytes or rubbish.
Each test takes the files before (all synced) and after (nothing of the difference synced) and mixes them.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubesim.storage import Store
from kubesim.storage.fsck import check_directory
from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry
from tests.kubesim.storage.store_helpers import encoder

SECTOR = 512
DATABASE, WRITE_AHEAD = "kubesim.db", "kubesim.db-wal"
Files = dict[str, bytes]


class Machine:
    """A log that is written without anybody taking part of it to the database unasked, and its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = Log(directory / DATABASE)
        self.log._writing.execute("PRAGMA wal_autocheckpoint = 0")
        self.revision = 0
        self.there: dict[str, int] = {}

    def append(self, count: int) -> None:
        """Commit some writes, creations and changes and deletions."""
        batch = []
        for _ in range(count):
            self.revision += 1
            key = f"pods/x/{self.revision * 7 % 23}"
            before = self.there.pop(key, 0)
            deleted = before > 0 and self.revision % 3 == 0
            if not deleted:
                self.there[key] = self.revision
            value = encoder(key, "x" * (self.revision * 131 % 3000))(self.revision)
            batch.append(LogEntry(self.revision, key, before, int(deleted), value))
        self.log.append(batch)

    def checkpoint(self) -> None:
        """Take everything from the write-ahead log to the database."""
        ((busy, pages, taken),) = self.log._writing.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert not busy and pages == taken > 0

    def files(self) -> Files:
        return {name: (self.directory / name).read_bytes() for name in (DATABASE, WRITE_AHEAD)}


def remains(synced: bytes, written: bytes, generator: random.Random) -> Iterator[bytes]:
    """What a disk may hold of a file that was synced once and then written to: cut, with holes, with rubbish."""
    first = next(at for at in range(len(written)) if written[at : at + 1] != synced[at : at + 1])
    sectors = [
        slice(max(start, first), start + SECTOR)  # what shares a sector with new bytes is not lost with them
        for start in range(first // SECTOR * SECTOR, len(written), SECTOR)
        if written[start : start + SECTOR] != synced[start : start + SECTOR]
    ]
    yield synced
    yield written
    for _ in range(12):  # as much as was written until the power went, to the byte
        cut = generator.randint(first, len(written))
        yield written[:cut] + synced[cut:]
    for share in (0.1, 0.5, 0.9):  # some sectors and not others, with and without rubbish in one of them
        for rubbish in (False, True) * 3:
            mixed = bytearray(synced)
            for place in sectors:
                if generator.random() < share:
                    mixed.extend(bytes(max(0, place.start - len(mixed))))
                    mixed[place] = written[place]
            if rubbish:
                place = generator.choice(sectors)
                mixed.extend(bytes(max(0, place.start - len(mixed))))
                mixed[place] = generator.randbytes(place.stop - place.start)
            yield bytes(mixed)


def recovered(directory: Path, files: Files) -> tuple[int, dict[str, int]]:
    """Start on these files: the newest revision and what there is. The check must be clean before and after."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    assert check_directory(directory) == []

    async def look() -> tuple[int, dict[str, int]]:
        store = await Store.open(directory)
        there = {record.key: record.revision for record in store.list("").records}
        revision = store.revision
        record = await store.put("pods/x/new", encoder("pods/x/new"), expected=0)
        assert record.revision == revision + 1
        await store.close()
        return revision, there

    found = asyncio.run(look())
    assert check_directory(directory) == []
    return found


Step = Callable[[Machine], object]


def lose_power(tmp_path: Path, prepare: Step, step: Step, torn: str) -> set[int]:
    """Prepare, then lose power during a step that writes one of the files; returns the revisions that were found."""
    (tmp_path / "running").mkdir()
    machine = Machine(tmp_path / "running")
    prepare(machine)
    synced, before = machine.files(), (machine.revision, dict(machine.there))
    step(machine)
    written, after = machine.files(), (machine.revision, dict(machine.there))
    other = ({DATABASE, WRITE_AHEAD} - {torn}).pop()
    assert written[torn] != synced[torn] and written[other] == synced[other]
    machine.log.close()
    found = []
    for content in remains(synced[torn], written[torn], random.Random(9)):
        found.append(recovered(tmp_path / "restarted", {other: synced[other], torn: content}))
        assert found[-1] in (before, after)  # all of what was acknowledged; of what was not, all or nothing
    assert found[:2] == [before, after]
    return {revision for revision, _ in found}


def several_commits(machine: Machine) -> None:
    for count in (1, 5, 40, 3):
        machine.append(count)


@pytest.mark.parametrize("count", [1, 30])
def test_during_a_commit(tmp_path: Path, count: int) -> None:
    found = lose_power(tmp_path, several_commits, lambda machine: machine.append(count), WRITE_AHEAD)
    assert found == {49, 49 + count}


def test_during_a_commit_that_writes_over_what_is_in_the_database_already(tmp_path: Path) -> None:
    def prepare(machine: Machine) -> None:
        several_commits(machine)
        machine.checkpoint()

    assert lose_power(tmp_path, prepare, lambda machine: machine.append(20), WRITE_AHEAD) == {49, 69}


def test_while_the_database_is_brought_up_to_date(tmp_path: Path) -> None:
    def prepare(machine: Machine) -> None:
        several_commits(machine)
        machine.checkpoint()
        several_commits(machine)

    assert lose_power(tmp_path, prepare, Machine.checkpoint, DATABASE) == {98}


def test_during_a_compaction(tmp_path: Path) -> None:
    def prepare(machine: Machine) -> None:
        several_commits(machine)
        machine.log.compact(machine.revision)

    assert lose_power(tmp_path, prepare, lambda machine: machine.log.sweep(20), WRITE_AHEAD) == {49}


def test_new_data_directory(tmp_path: Path) -> None:
    found = lose_power(tmp_path, lambda machine: None, lambda machine: machine.append(2), WRITE_AHEAD)
    assert found == {0, 2}
