"""Who holds a data directory; the kernel knows, also when the holder is gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubesim.storage.directory_lock import DirectoryLock, holder_of
from kubesim.storage.errors import DataDamaged, DataInUse
from tests.cli.command import SOURCES
from tests.support.processes import started_process

HOLD = """
import sys, time
from pathlib import Path
from kubesim.storage.directory_lock import DirectoryLock
holder = DirectoryLock.acquire(Path(sys.argv[1]), "kubesim", "http://127.0.0.1:1")
print("held", flush=True)
time.sleep(60)
"""


def test_directory_lock_names_its_holder(tmp_path: Path) -> None:
    assert holder_of(tmp_path) == ""
    holder = DirectoryLock.acquire(tmp_path, "kubesim")
    when = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    words = rf"kubesim, process {os.getpid()}, since {when}"
    assert re.fullmatch(words, holder_of(tmp_path))
    holder.announce("http://127.0.0.1:8001")
    with pytest.raises(DataInUse) as refused:
        DirectoryLock.acquire(tmp_path, "kubesim")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))} is held by {words}, at http://127.0.0.1:8001", str(refused.value))
    holder.release()
    assert holder_of(tmp_path) == ""
    DirectoryLock.acquire(tmp_path, "kubesim").release()


def test_directory_lock_of_killed_process_is_free(tmp_path: Path) -> None:
    with started_process(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DataInUse, match=f"process {process.pid}, .*, at http://127.0.0.1:1$"):
            DirectoryLock.acquire(tmp_path, "kubesim")
        process.kill()
    assert holder_of(tmp_path) == ""
    DirectoryLock.acquire(tmp_path, "kubesim").release()


def test_lock_file_that_says_nothing_holds_all_the_same(tmp_path: Path) -> None:
    holder = DirectoryLock.acquire(tmp_path, "kubesim")
    (tmp_path / "lock").write_text("")
    with pytest.raises(DataInUse, match="held by another process"):
        DirectoryLock.acquire(tmp_path, "kubesim")
    holder.release()


def test_unusable_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDamaged, match=r"file/data cannot be used as a data directory: File exists: .*file$"):
        DirectoryLock.acquire(tmp_path / "file" / "data", "kubesim")
