"""``pumice fsck``: what it prints, and its exit status."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from click.testing import CliRunner

from kubesim.storage import Store
from kubesim.storage.log import Log
from pumice.cli.fsck_command import fsck
from pumice.embedded.identity import PUMICE
from tests.kubesim.storage.store_helpers import line, put


def test_fsck_of_clean_and_of_damaged_data(tmp_path: Path) -> None:
    log = Log(tmp_path / "pumice.db")
    log.append([line(1, "pods/x/c"), line(2, "pods/x/c", 1)])
    log.close()
    runner = CliRunner()
    clean = runner.invoke(fsck, [str(tmp_path)])
    assert (clean.exit_code, clean.output) == (0, f"CLEAN {tmp_path}\n")
    with closing(sqlite3.connect(tmp_path / "pumice.db")) as connection:
        connection.executescript("DELETE FROM log WHERE revision = 1")
    wrong = runner.invoke(fsck, [str(tmp_path)])
    assert wrong.exit_code == 1
    assert wrong.output.splitlines() == [
        "WRONG revision 2 of pods/x/c: it continues revision 1, which is not there",
        f"1 finding in {tmp_path}",
    ]


def test_fsck_of_a_folder_without_data_changes_nothing(tmp_path: Path) -> None:
    none = CliRunner().invoke(fsck, [str(tmp_path)])
    assert none.exit_code == 2 and f"error: {tmp_path} is no data directory: it has no pumice.db\n" in none.output
    assert list(tmp_path.iterdir()) == []


def test_fsck_of_data_in_use_names_the_holder(tmp_path: Path) -> None:
    async def story() -> str:
        store = await Store.open(tmp_path, PUMICE)
        store.announce("http://127.0.0.1:8001")
        await put(store, "nodes/0")
        answer = CliRunner().invoke(fsck, [str(tmp_path)])
        await store.close()
        assert answer.exit_code == 0
        return answer.output

    output = asyncio.run(story())
    assert "in use by pumice up, process" in output and "at http://127.0.0.1:8001\nCLEAN" in output
