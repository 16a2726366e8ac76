"""Where the files of a cluster of real nodes are."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.node.cgroups import PREFIX

MEMORY = Path("/dev/shm")
NODE_BYTES = 3 << 29
"""Enough for the images and the containers of a node."""


@contextmanager
def work_folder(nodes: int) -> Iterator[Path]:
    """A folder outside of /run, /var/lib and /var/log, of which nodes have their own, for the time of a ``with`` block.

    It is in memory where there is enough: on many disks it takes a minute to delete the files of two nodes.
    """
    room = nodes * NODE_BYTES
    in_memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > room and _available_memory() > 2 * room
    parent = MEMORY if in_memory else Path(tempfile.gettempdir())
    for stale in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", stale.name.removeprefix(PREFIX)).exists():  # its process was killed
            shutil.rmtree(stale)
    folder = parent / f"{PREFIX}{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _available_memory() -> int:
    (kibibytes,) = re.findall(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(kibibytes) * 1024
