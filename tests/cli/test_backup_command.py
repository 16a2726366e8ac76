"""``pumice backup`` and ``pumice restore``: what they print, and their exit status."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kubesim.storage.log import Log
from pumice.cli.backup_command import backup, restore
from pumice.cli.fsck_command import fsck
from tests.kubesim.storage.store_helpers import line


def test_data_are_backed_up_and_restored(tmp_path: Path) -> None:
    data, file, again = tmp_path / "data", tmp_path / "file", tmp_path / "again"
    data.mkdir()
    log = Log(data / "pumice.db")
    log.append([line(1, "priorityclasses.scheduling.k8s.io/c")])
    run = CliRunner().invoke
    done = run(backup, [str(data), str(file)])
    log.close()
    assert (done.exit_code, done.output) == (0, f"backup of {data} in {file}\n")
    done = run(restore, [str(file), str(again)])
    assert (done.exit_code, done.output) == (0, f"{again} restored from {file}\n")
    assert run(fsck, [str(again)]).output == f"CLEAN {again}\n"
    done = run(backup, [str(data), str(file)])
    assert (done.exit_code, done.output) == (1, f"Error: {file} exists; name a new file\n")
    done = run(restore, [str(file), str(again)])
    assert (done.exit_code, done.output) == (1, f"Error: {again} has data already: move its pumice.db away first\n")


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(backup, [str(tmp_path), str(tmp_path / "file")])
    assert (done.exit_code, done.output) == (1, f"Error: {tmp_path} is no data directory: it has no pumice.db\n")
    (tmp_path / "file").write_text("nonsense " * 1000)
    done = run(restore, [str(tmp_path / "file"), str(tmp_path / "new")])
    assert done.exit_code == 1 and f"{tmp_path / 'file'} cannot be copied: file is not a database" in done.output
    assert not (tmp_path / "new" / "pumice.db").exists()
    done = run(backup, [str(tmp_path / "new"), str(tmp_path / "missing" / "file")])
    assert done.exit_code == 1
