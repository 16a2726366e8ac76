"""kill -9 at any moment: what was acknowledged is there."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from kubesim.storage import Store
from kubesim.storage.fsck import check_directory
from tests.cli.command import SOURCES
from tests.support.processes import started_process

WRITER = Path(__file__).with_name("killed_writer.py")
CHECKOUT = Path(__file__).parents[3]


def run_and_kill(directory: Path, seed: int, writes: int) -> list[str]:
    """Kill the writer after so many acknowledged writes; returns what it said, to the last whole line."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCES), str(CHECKOUT)])}
    reader, writer = os.pipe()
    with started_process([sys.executable, WRITER, directory, str(seed)], stdout=writer, env=environment) as process:
        os.close(writer)
        said, killed = b"", False
        while chunk := os.read(reader, 1 << 16):
            said += chunk
            if not killed and said.count(b"\n") > writes:  # the first line says that the store is open
                process.kill()
                killed = True
    os.close(reader)
    return said.decode().split("\n")[:-1]


def survive(directory: Path, kills: int) -> None:
    generator = random.Random(5)
    acknowledged: dict[str, tuple[int, bool]] = {}  # the newest of each key
    newest = compacted = 0
    for seed in range(kills):
        opened, *said = run_and_kill(directory, seed, writes := generator.randint(1, 500))
        assert len(said) >= writes
        _, revision, begins = opened.split()
        # Nothing acknowledged is gone, and nothing new is numbered as if it were older.
        assert int(revision) >= newest and int(begins) >= compacted
        compacted = int(begins)
        for line in said:
            number, key, before, deleted = line.split()
            assert newest < int(number)
            assert not int(before) or int(before) < int(number)
            newest = int(number)
            acknowledged[key] = (newest, deleted == "1")
        assert check_directory(directory) == []
        newest = asyncio.run(compare(directory, acknowledged, newest))


async def compare(directory: Path, acknowledged: dict[str, tuple[int, bool]], newest: int) -> int:
    """What is there is what was acknowledged, and what was under way, which counts from now on: it has been seen."""
    store = await Store.open(directory)
    under_way, complete = store.changes("", newest, 1000)
    assert complete == store.revision >= newest
    writers = [change.key.split("/")[1] for change in under_way]
    assert len(writers) == len(set(writers))  # each waits for one answer at a time
    for change in under_way:
        assert change.before == (0 if acknowledged.get(change.key, (0, True))[1] else acknowledged[change.key][0])
        acknowledged[change.key] = (change.revision, change.deleted)
    there = {record.key: record.revision for record in store.list("").records}
    assert there == {key: revision for key, (revision, deleted) in acknowledged.items() if not deleted}
    await store.close()
    return store.revision


def test_killed_a_few_times(tmp_path: Path) -> None:
    survive(tmp_path, 5)


@pytest.mark.long
def test_killed_fifty_times(tmp_path: Path) -> None:
    survive(tmp_path, 50)
