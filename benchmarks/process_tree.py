"""Processes with everything that they start, daemons too: their CPU time and their memory.

``python -m benchmarks.process_tree COMMAND ...`` runs a command and inherits every process below it that loses its
parent, so that none is lost from the count. It ends when the command has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")
KIB = 1024
ENDED = "processes that ended"


class ProcessTree:
    """A command that runs under a reaper of its own."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        with log.open("ab") as output:
            self._reaper = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.process_tree", *command],
                cwd=Path(__file__).parent.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def cpu_seconds(self) -> dict[str, float]:
        """Used so far, by the name of the process; processes that have ended count for whoever reaped them."""
        seconds: dict[str, float] = {}
        for pid in self.processes():
            if fields := _stat(pid):
                name = ENDED if pid == self._reaper.pid else _name(pid)
                own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))  # each utime and stime
                seconds[name] = seconds.get(name, 0.0) + own / TICKS
                if ended:
                    label = ENDED if pid == self._reaper.pid else f"{name}: {ENDED}"
                    seconds[label] = seconds.get(label, 0.0) + ended / TICKS
        return seconds

    def memory_mib(self) -> float:
        """Proportional set size: what processes share counts once."""
        found = 0
        for pid in self.processes():
            if pid != self._reaper.pid:
                found += _proportional_kib(pid)
        return found / KIB

    def processes(self) -> Iterator[int]:
        """The reaper and everything below it."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (fields := _stat(int(entry.name))):
                children.setdefault(int(fields[1]), []).append(int(entry.name))
        waiting = [self._reaper.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            waiting += children.get(pid, [])

    def alive(self) -> bool:
        return self._reaper.poll() is None

    def stop(self) -> None:
        """Ask the command to end, and end what is left below it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in [pid for pid in self.processes() if pid != self._reaper.pid]:
                _send(pid, number)
            try:
                self._reaper.wait(10)
            except subprocess.TimeoutExpired:
                continue
            break
        else:
            self._reaper.kill()
            self._reaper.wait()


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` from the state on; none if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _name(pid: int) -> str:
    """The program, or of a command of Pumice the command."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    if "pumice" in words:
        return words[words.index("pumice") + 1]
    return Path(words[0]).name


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def main(command: list[str]) -> int:
    """Run a command, and reap everything until nothing is left."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    first = subprocess.Popen(command)
    status = 0
    while True:
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == first.pid:
            status = os.waitstatus_to_exitcode(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
