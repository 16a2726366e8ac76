"""A process that writes 10 GB: its log takes no more than it may, all the time, and the shim does not grow."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pumice.agent.pod_plan import LOG_BYTES, LOG_FILES
from tests.support.shims import container, shimmed_pod

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

BYTES = 10 * 10**9
LINE = 1000
MOST_MEMORY = 32 << 20
SECONDS = 1500.0
WRITE = """
import os, sys
lines = int(sys.argv[1]) // 1000
for first in range(0, lines, 1000):
    block = b"".join(b"%012d %s\\n" % (number, b"x" * 986) for number in range(first, first + 1000))
    while block:
        block = block[os.write(1, block):]
"""


def used_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    found = 0
    for entry in os.scandir(folder):
        try:
            found += 512 * entry.stat().st_blocks
        except FileNotFoundError:  # rotated meanwhile
            continue
    return found


def test_much_output_takes_little_room(tmp_path: Path) -> None:
    main = container("main", sys.executable, "-c", WRITE, str(BYTES))
    with shimmed_pod(tmp_path / "a", main, log_bytes=LOG_BYTES, log_files=LOG_FILES) as pod:
        logs, most, memory = pod.folder / "logs" / "main", 0, 0
        until = time.monotonic() + SECONDS
        while not pod.record["finished"]:
            assert time.monotonic() < until
            if logs.exists():
                most = max(most, used_bytes(logs))
                status = Path(f"/proc/{pod.shim_pid}/status").read_text().splitlines()
                memory = max([memory, *(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))])
            time.sleep(0.05)
        assert pod.record["phase"] == "Succeeded"
        assert 0 < most <= LOG_FILES * (LOG_BYTES + (64 << 10))  # a block of the file system more for each
        assert 0 < memory <= MOST_MEMORY
        assert pod.log("main")[-1][1].startswith(f"{BYTES // LINE - 1:012d} ")
        print(f"{most >> 20} MiB of disk, {memory >> 20} MiB of memory")
