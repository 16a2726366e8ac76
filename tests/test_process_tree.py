"""benchmarks/process_tree: nothing that a command starts is lost from the count, and nothing is left running."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.process_tree import ENDED, ProcessTree

ORPHAN = "(sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done' &); exec sleep 600"


def test_cpu_time_of_a_process_that_lost_its_parent_counts(tmp_path: Path) -> None:
    tree = ProcessTree(["sh", "-c", ORPHAN], tmp_path / "log", dict(os.environ))
    try:
        deadline = time.monotonic() + 60
        # The reaper's own start is below 0.1 s; the loop of the orphan takes longer than one tick in any case.
        while not any(name == "sleep" for name in tree.cpu_seconds()) or len(list(tree.processes())) > 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert tree.cpu_seconds()[ENDED] > 0
        assert tree.memory_mib() > 0
        left = list(tree.processes())
    finally:
        tree.stop()
    assert not tree.alive()
    assert not [pid for pid in left if Path(f"/proc/{pid}/cmdline").exists()]
