"""The process of a shim, from its fork to the end of its pod.

However often it is started for one pod, the pod is run once: a lock on the plan allows one shim at a time, and
``shim.json`` says that there was one already.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

from pumice.agent.shim.pod_shim import PodShim
from pumice.agent.shim.process_start import become_subreaper
from pumice.agent.shim.process_table import boot_id, start_ticks
from pumice.agent.shim.process_title import set_title
from pumice.agent.shim.records import PLAN, SHIM, ShimRecord, read_record, write_record

LOG = "shim.log"


def run_shim(folder: str, on_start: Callable[[], None]) -> None:
    """Run the pod of a folder in this process, unless another one does or did; ``on_start`` once that is settled."""
    _detach(folder)
    lock = os.open(f"{folder}/{PLAN}", os.O_RDONLY | os.O_CLOEXEC)  # written once, and never replaced
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return on_start()  # another one runs the pod
    if read_record(f"{folder}/{SHIM}") is not None:
        return on_start()  # another one has run the pod
    become_subreaper()
    mine = os.getpid()
    record: ShimRecord = {"pid": mine, "start_ticks": start_ticks(mine), "boot": boot_id()}
    write_record(f"{folder}/{SHIM}", record)
    on_start()
    return PodShim(folder, read_record(f"{folder}/{PLAN}")).run()


def _detach(folder: str) -> None:
    """Leave the session and the terminal of whoever has started this process."""
    os.setsid()
    os.chdir("/")
    set_title("pumice-shim", folder)
    log = os.open(f"{folder}/{LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
