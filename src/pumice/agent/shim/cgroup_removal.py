"""Removes the cgroups of a pod that has ended."""

from __future__ import annotations

import os
import time

BUSY_PAUSES = (0.0, 0.01, 0.05, 0.0)
"""Seconds between attempts to remove a cgroup: the kernel may still be busy with processes that have just ended."""


def remove_cgroups(folders: list[str]) -> None:
    """Remove cgroups, inner ones first; no process is left in them.

    One whose last process still waits in the kernel stays until the next agent starts.
    """
    for folder in folders:
        for pause in BUSY_PAUSES:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(pause)
            else:
                break
