"""Linux namespaces as machines: a set of them with its own network, mounts, processes and host name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

from tests.node.first_process import READY
from tests.support.processes import end_process, killed_after, run_process, start_process

ROOT = Path(__file__).parent.parent.parent
SECONDS = 60.0
_machines: WeakSet[Machine] = WeakSet()


class Machine:
    """One set of namespaces. ``end`` kills all in it at once, as a power failure would.

    ``cpus`` is how many CPUs kubelets find in it, if not those of this machine.
    """

    def __init__(self, name: str, folder: Path, cpus: int | None = None) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._log = (folder / "first-process.log").open("ab")
        self.started: dict[str, subprocess.Popen[Any]] = {}
        unshare = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc"]
        command = [*unshare, "--kill-child=KILL", sys.executable, "-m", "tests.node.first_process", name, str(folder)]
        command += [] if cpus is None else [str(cpus)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._log}
        self._holder = start_process(command, cwd=ROOT, start_new_session=True, text=True, **pipes)
        _machines.add(self)

    def await_ready(self) -> None:
        with killed_after(self._holder, SECONDS):
            said = self._holder.stdout.readline() if self._holder.stdout else ""
        assert said == f"{READY}\n", f"{self.name} has no namespaces: {self.log('first-process')}"
        self.pid = _only_child(self._holder.pid)

    def inside(self, *command: str | Path) -> list[str]:
        """The command line that runs a command in these namespaces."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
        return [*enter, "--", *map(str, command)]

    def run(self, *command: str | Path, seconds: float = SECONDS, check: bool = True) -> str:
        """What a command says that ends by itself."""
        done = run_process(self.inside(*command), capture_output=True, text=True, timeout=seconds)
        assert not check or done.returncode == 0, f"{self.name}: {command[0]} failed: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def start(self, name: str, *command: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """Start a daemon; what it says goes to its log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.started[name] = start_process(
                self.inside(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Let a daemon do nothing for the time of a ``with`` block."""
        nsenter = self.started[name].pid
        daemon = _only_child(nsenter)
        os.kill(daemon, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in (daemon, nsenter):  # which stops with its child
                os.kill(process, signal.SIGCONT)

    def check(self) -> None:
        """Fail if a daemon has ended."""
        for name, process in self.started.items():
            assert process.poll() is None, f"{name} of {self.name} ended:\n{self.log(name)}"

    def log(self, name: str) -> str:
        """What a daemon said last."""
        with (self.folder / f"{name}.log").open("rb") as log:
            return _tail(log)

    def end(self) -> None:
        # unshare ignores SIGTERM. The first process ends with its input, and unshare with the first process.
        if self._holder.stdin is not None and not self._holder.stdin.closed:
            self._holder.stdin.close()
        end_process(self._holder)
        for process in self.started.values():
            end_process(process)
        self._log.close()
        _machines.discard(self)


def end_all_machines() -> None:
    """End every machine that still runs."""
    for machine in list(_machines):
        machine.end()


@contextlib.contextmanager
def shown_logs(*machines: Machine) -> Iterator[None]:
    """Say what the daemons said last, if the block fails."""
    try:
        yield
    except BaseException:
        for machine in machines:
            for name in machine.started:
                sys.stderr.write(f"---- {name} of {machine.name}\n{machine.log(name)[-1500:]}\n")
        raise


def connect(first: Machine | None, name: str, second: Machine, peer: str) -> None:
    """Lay a cable between two machines; ``None`` is this one. It goes with either end."""
    here = [] if first is None else ["netns", str(first.pid)]
    there = ["peer", "name", peer, "netns", str(second.pid)]
    run_process(["ip", "link", "add", "name", name, *here, "type", "veth", *there], check=True)


def _only_child(process: int) -> int:
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


def _tail(log: IO[bytes], size: int = 4000) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - size))
    return log.read().decode(errors="replace")
