"""``pumice simulate`` on a terminal: a line with position, time left and rate; none where nobody looks."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import SOURCES, pumice_command
from tests.simulate.samples import workload_file
from tests.support.processes import killed_after, started_process

pytestmark = pytest.mark.process

JOBS = 200
LINES = "".join(f"j{n},{n},eng,ann,1,cpu=1,1,{5 + n % 7},\n" for n in range(JOBS))


def said_on_a_terminal(*arguments: str) -> str:
    """What the command writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    with started_process(
        [sys.executable, "-m", "pumice", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(SOURCES)},
    ) as process:
        os.close(theirs)
        said = b""
        with killed_after(process, 120), suppress(OSError):  # when nobody has the other end any more
            while part := os.read(ours, 4096):
                said += part
        assert process.wait(120) == 0, said.decode()
    os.close(ours)
    return said.decode()


def test_a_terminal_shows_how_far_the_runs_are(tmp_path: Path) -> None:
    said = said_on_a_terminal(
        "simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--policy", "steer", "--policy", "fcfs"
    )
    positions = [(int(done), int(whole)) for done, whole in re.findall(r"(\d+)/(\d+)", said)]
    assert {whole for _, whole in positions} == {2 * JOBS}  # of both policies together
    assert [done for done, _ in positions] == sorted(done for done, _ in positions)
    assert positions[-1] == (2 * JOBS, 2 * JOBS)
    assert re.search(r"[\d,]+ jobs/s", said)


def test_nothing_is_shown_where_there_is_no_terminal(tmp_path: Path) -> None:
    done = pumice_command("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8")
    assert (done.returncode, done.stderr) == (0, "")
