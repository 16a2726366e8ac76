"""Starts a shim: ``main(FOLDER)`` in a process of its own, which returns once the shim has written itself down.

However often it is called for one pod, the pod is run once: a lock allows one shim at a time, and ``shim.json`` says
that there was one already.
"""

from __future__ import annotations

import fcntl
import os
import sys

from pumice.agent.shim.pod_shim import PodShim
from pumice.agent.shim.process_start import become_subreaper
from pumice.agent.shim.process_table import boot_id, start_ticks
from pumice.agent.shim.records import LOCK, PLAN, SHIM, ShimRecord, read_record, write_record


def main(folder: str) -> int:
    """Start the shim of a pod's folder as a daemon."""
    heard, said = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(said)
        return 0 if os.read(heard, 1) else 1
    os.setsid()
    os.chdir("/")
    os.close(heard)
    lock = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(said, b"+")  # another one runs the pod
        os._exit(0)
    if read_record(f"{folder}/{SHIM}") is not None:
        os.write(said, b"+")  # another one has run the pod
        os._exit(0)
    become_subreaper()
    mine = os.getpid()
    record: ShimRecord = {"pid": mine, "start_ticks": start_ticks(mine), "boot": boot_id()}
    write_record(f"{folder}/{SHIM}", record)
    os.write(said, b"+")
    os.close(said)
    PodShim(folder, read_record(f"{folder}/{PLAN}")).run()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
