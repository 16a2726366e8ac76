"""One container of a pod: its process, its output, its probes, and what is written down about it."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import time
from contextlib import nullcontext, suppress

from pumice.agent.shim.exec_probe import ExecProbe
from pumice.agent.shim.log_writer import LogWriter
from pumice.agent.shim.process_identity import acting_as
from pumice.agent.shim.process_start import StartError, start_process
from pumice.agent.shim.process_table import (
    cgroup_processes,
    descendants,
    has_children,
    kill_all,
    marked_processes,
    start_ticks,
)
from pumice.agent.shim.records import LOGS, ContainerPlan, ContainerRecord, PodPlan

START_ERROR = 128
READ_BYTES = 64 * 1024
KEPT_RUNS = 2
"""Runs of a container whose logs are kept: the present one and the one before."""
FIRST_BACKOFF, LONGEST_BACKOFF, BACKOFF_RESET_SECONDS = 10.0, 300.0, 600.0
LIVENESS, READINESS, STARTUP = "livenessProbe", "readinessProbe", "startupProbe"


class Container:
    """A container over all its runs."""

    def __init__(self, plan: ContainerPlan, pod: PodPlan, folder: str, selector: selectors.BaseSelector) -> None:
        self._plan = plan
        self._pod = pod
        self._logs = f"{folder}/{LOGS}/{plan['name']}"
        self._selector = selector
        self._log: LogWriter | None = None
        self._pipes: dict[int, str] = {}
        self._copy = -1  # the descriptor of the file that gets the output as well
        self._probes: dict[str, ExecProbe] = {}
        self._oom_kills = 0
        self._backoff = 0.0
        self._began = 0.0
        self.restart_at = 0.0
        """When it is started again, by the monotonic clock; 0: it is not going to be."""
        self.kill_at = 0.0
        """When its processes are killed because it did not end by itself; 0: no such end is set."""
        self.unwell = ""
        """Why the shim ends it, if it does."""
        self.record: ContainerRecord = {
            "name": plan["name"],
            "init": plan["init"],
            "state": "waiting",
            "reason": "PodInitializing" if not plan["init"] else "ContainerCreating",
            "message": "",
            "restarts": 0,
            "ready": False,
            "run": None,
            "last": None,
        }

    @property
    def pid(self) -> int:
        """The first process of the container; 0: none runs."""
        run = self.record["run"]
        return run["pid"] if run is not None and self.record["state"] == "running" else 0

    @property
    def exit_code(self) -> int | None:
        """How it ended; None before its end."""
        run = self.record["run"]
        return run["exit_code"] if run is not None and self.record["state"] == "terminated" else None

    def start(self) -> None:
        """Start it, or start it again."""
        record = self.record
        if record["run"] is not None:
            record["last"] = record["run"]
            record["restarts"] += 1
        self._began, self.restart_at, self.kill_at, self.unwell = time.monotonic(), 0.0, 0.0, ""
        self._open_log()
        self._oom_kills = self._count_oom_kills()
        try:
            pid = self._start_process()
        except StartError as error:
            now = time.time()
            self._close_log()
            record["run"] = {
                "pid": 0,
                "start_ticks": 0,
                "started": now,
                "finished": now,
                "exit_code": START_ERROR,
                "reason": "StartError",
                "message": f"failed to start container: {error}",
            }
            self._set_state("terminated")
            return
        record["run"] = {
            "pid": pid,
            "start_ticks": start_ticks(pid),
            "started": time.time(),
            "finished": 0.0,
            "exit_code": 0,
            "reason": "",
            "message": "",
        }
        self._set_state("running")
        self._probes = {kind: ExecProbe(plan, self._plan, self._began) for kind, plan in self._plan["probes"].items()}
        record["ready"] = READINESS not in self._probes and STARTUP not in self._probes

    def _set_state(self, state: str) -> None:
        self.record["state"], self.record["ready"] = state, False
        self.record["reason"] = self.record["message"] = ""

    def _start_process(self) -> int:
        """The process with its output connected to the log."""
        ends = {stream: os.pipe2(os.O_CLOEXEC) for stream in ("stdout", "stderr")}
        near, far = socket.socketpair() if self._plan.get("output") else (None, None)
        try:
            pid = start_process(self._plan, self._plan["command"], ends["stdout"][1], ends["stderr"][1], far)
            if near is not None:
                self._copy = socket.recv_fds(near, 1, 1)[1][0]
        except StartError:
            for reading, _ in ends.values():
                os.close(reading)
            raise
        finally:
            for _, writing in ends.values():
                os.close(writing)
            for end in (near, far):
                if end is not None:
                    end.close()
        for stream, (reading, _) in ends.items():
            os.set_blocking(reading, False)
            self._pipes[reading] = stream
            self._selector.register(reading, selectors.EVENT_READ, self.read_output)
        return pid

    def note_exit(self, pid: int, status: int) -> bool:
        """Take the end of a process; False if it is none of this container's first processes or probes."""
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
        for probe in self._probes.values():
            if probe.pid == pid:
                probe.note_exit(code)
                return True
        if not pid or pid != self.pid:
            return False
        self._end_leftovers()
        self._close_log()
        run = self.record["run"]
        assert run is not None
        killed = self._count_oom_kills() > self._oom_kills
        run["finished"], run["exit_code"] = time.time(), code
        run["reason"] = "OOMKilled" if killed and code else "Completed" if code == 0 else "Error"
        run["message"] = self.unwell
        self._set_state("terminated")
        for probe in self._probes.values():
            probe.kill()
        self._probes = {}
        self.kill_at = 0.0
        return True

    def schedule_restart(self) -> None:
        """Start it again: at once after its first end, then after pauses that double."""
        if time.monotonic() - self._began >= BACKOFF_RESET_SECONDS:
            self._backoff = 0.0
        self.restart_at = time.monotonic() + self._backoff
        if self._backoff:
            self.record["state"] = "waiting"
            self.record["reason"] = "CrashLoopBackOff"
            self.record["message"] = f"back-off {self._backoff:.0f}s restarting failed container={self._plan['name']}"
        self._backoff = min(LONGEST_BACKOFF, max(FIRST_BACKOFF, self._backoff * 2))

    def terminate(self, grace: float, why: str = "") -> None:
        """Ask its processes to end, and have them killed later."""
        self.restart_at = 0.0
        if not self.pid:
            return
        due = time.monotonic() + grace
        if self.kill_at:
            self.kill_at = min(self.kill_at, due)
            return
        self.kill_at, self.unwell = due, why
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill its processes now."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._end_leftovers()

    def run_probes(self) -> bool:
        """Run what is due; whether the container's record changed."""
        if not self.pid or self.kill_at:
            return False
        startup = self._probes.get(STARTUP)
        if startup is not None and not startup.passed:
            startup.run_due()
            if startup.failed:
                self.terminate(self._probe_grace(STARTUP), "the startup probe failed")
            return False
        for kind in (LIVENESS, READINESS):
            if kind in self._probes:
                self._probes[kind].run_due()
        if LIVENESS in self._probes and self._probes[LIVENESS].failed:
            self.terminate(self._probe_grace(LIVENESS), "the liveness probe failed")
        ready = self.record["ready"]
        if READINESS not in self._probes or self._probes[READINESS].passed:
            ready = True
        elif self._probes[READINESS].failed:
            ready = False
        changed, self.record["ready"] = ready != self.record["ready"], ready
        return changed

    def _probe_grace(self, kind: str) -> float:
        return self._plan["probes"][kind].get("grace", self._pod["grace"])

    def next_due(self) -> float:
        """When it has to be looked at next, by the monotonic clock; infinity if only its end matters."""
        dues = [due for due in (self.restart_at, self.kill_at) if due]
        if self.pid and not self.kill_at:
            startup = self._probes.get(STARTUP)
            waits = startup is not None and not startup.passed
            dues += [probe.due for kind, probe in self._probes.items() if (kind == STARTUP) == waits]
        return min(dues, default=float("inf"))

    def read_output(self, reading: int) -> None:
        """Take what is in a pipe."""
        self._take_output(reading)

    def _take_output(self, reading: int) -> int:
        """Take a part of what is in a pipe; how many bytes. 0: there are none now, or it has ended."""
        assert self._log is not None
        try:
            content = os.read(reading, READ_BYTES)
        except BlockingIOError:
            return 0
        if content:
            self._log.write(self._pipes[reading], content)
            self._write_copy(content)
        else:
            self._close_pipe(reading)
        return len(content)

    def _write_copy(self, content: bytes) -> None:
        """Append to the user's file. A full disk must not stop the pod; the log has the output in any case.

        As the user, because root may write what is beyond the quota of the user, and has more rights in files of /proc.
        """
        identity = self._plan.get("identity")
        with suppress(OSError), acting_as(identity) if identity is not None else nullcontext():
            while self._copy >= 0 and content:
                content = content[os.write(self._copy, content) :]

    def _close_pipe(self, reading: int) -> None:
        self._selector.unregister(reading)
        os.close(reading)
        del self._pipes[reading]

    def _open_log(self) -> None:
        os.makedirs(self._logs, mode=0o700, exist_ok=True)
        number = self.record["restarts"]
        old = f"{number - KEPT_RUNS}.log"
        for name in os.listdir(self._logs):
            if name == old or name.startswith(f"{old}."):
                os.remove(f"{self._logs}/{name}")
        self._log = LogWriter(f"{self._logs}/{number}.log", self._pod["log_bytes"], self._pod["log_files"])

    def _close_log(self) -> None:
        """Write what the processes have left in the pipes. None of them is there to write more, but others may be."""
        for reading in list(self._pipes):
            left = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)  # what is beyond it was written after their end
            while left > 0 and (taken := self._take_output(reading)):
                left -= taken
            if reading in self._pipes:
                self._close_pipe(reading)
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _end_leftovers(self) -> None:
        """Kill what the container has started and left behind. The probes of the container go with it."""
        mine = os.getpid()

        def left() -> set[int]:
            joined = self._plan["joined"]
            if joined:
                return cgroup_processes(os.path.dirname(path) for path in joined[:1]) - {mine}
            if not has_children():
                return set()
            return marked_processes(self._pod["uid"], self._plan["name"]) & descendants(mine)

        kill_all(left)

    def _count_oom_kills(self) -> int:
        """Kills for lack of memory that the cgroup has seen."""
        path = self._plan["oom_counter"]
        if not path:
            return 0
        with suppress(OSError), open(path) as file:
            for line in file:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
        return 0
