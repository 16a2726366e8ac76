"""The life of a pod in its shim: init containers one after another, then the others together, until all have ended."""

from __future__ import annotations

import os
import selectors
import signal
import time

from pumice.agent.shim.cgroup_removal import remove_cgroups
from pumice.agent.shim.container import Container
from pumice.agent.shim.process_table import cgroup_processes, descendants, has_children, kill_all
from pumice.agent.shim.records import STATE, STOP, PodPlan, PodRecord, read_record, ring_bell, sync, write_record

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
FOREVER = float("inf")
RING_SECONDS = 0.01
"""How long the shim waits with a new record and word to the agent, so that of a pod that ends at once there is one."""
AGAIN_SECONDS = 0.1
"""How soon it tells the agent again if the agent had no room for its word."""


class PodShim:
    """Runs one pod to its end."""

    def __init__(self, folder: str, plan: PodPlan) -> None:
        self._folder = folder
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._containers = [Container(each, plan, folder, self._selector) for each in plan["containers"]]
        self._began = time.monotonic()
        self._stopping = False
        self._changed = True
        self._ring_at = FOREVER
        self._record: PodRecord = {
            "phase": "Pending",
            "reason": "",
            "message": "",
            "started": time.time(),
            "finished": False,
            "containers": [each.record for each in self._containers],
        }

    def run(self) -> None:
        """Run the pod; returns when nothing of it is left."""
        self._watch_signals()
        self._read_stop()
        while not self._record["finished"]:
            self._advance()
            if self._changed:
                self._ring_at = min(self._ring_at, time.monotonic() + RING_SECONDS)
            if self._record["finished"]:
                self._ring()
                sync(f"{self._folder}/{STATE}")
                remove_cgroups(self._plan["cgroups"])
                return
            if time.monotonic() >= self._ring_at:
                self._ring()
            due = min(self._next_due(), self._ring_at)
            wait = None if due == FOREVER else max(0.0, due - time.monotonic())
            for key, _ in self._selector.select(wait):
                key.data(key.fd)
            self._reap()

    # ---- signals and files --------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        heard, said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(said, warn_on_full_buffer=False)
        for sign in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(sign, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._selector.register(heard, selectors.EVENT_READ, self._hear_signals)

    def _hear_signals(self, heard: int) -> None:
        if signal.SIGTERM in os.read(heard, 4096):
            self._read_stop()

    def _read_stop(self) -> None:
        """Begin to end the pod if the agent has asked for it; a later request may only be more urgent."""
        asked = read_record(f"{self._folder}/{STOP}")
        if asked is not None:
            self._stop(float(asked["grace"]))

    def _ring(self) -> None:
        """Tell the agent that the state is new; if it does not listen, the next agent will look by itself."""
        if self._changed:
            write_record(f"{self._folder}/{STATE}", self._record)
            self._changed = False
        self._ring_at = FOREVER
        try:
            ring_bell(self._plan["notify"], self._plan["uid"])
        except BlockingIOError:  # many shims speak at once
            self._ring_at = time.monotonic() + AGAIN_SECONDS
        except (OSError, ValueError):
            pass

    # ---- steps --------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take every step that is due."""
        now = time.monotonic()
        deadline = self._plan["deadline"]
        if deadline and not self._stopping and now - self._began >= deadline:
            self._record["reason"], self._record["message"] = DEADLINE_EXCEEDED, DEADLINE_MESSAGE
            self._stop(self._plan["grace"])
        for container in self._containers:
            if container.kill_at and now >= container.kill_at and container.pid:
                container.kill()
                self._reap()
            self._changed |= container.run_probes()
        if not self._stopping:
            self._start_due(now)
        if all(not each.pid and not each.restart_at for each in self._containers) and (
            self._stopping or self._is_complete()
        ):
            self._finish()

    def _start_due(self, now: float) -> None:
        """Start the containers whose turn it is."""
        for container in self._containers:
            if container.record["init"] and container.exit_code != 0:
                if self._starts_now(container, now):
                    self._start(container)
                return  # those after it wait for its success
        for container in self._containers:
            if not container.record["init"] and self._starts_now(container, now):
                self._start(container)
        if self._record["phase"] == "Pending":
            self._record["phase"], self._changed = "Running", True

    def _starts_now(self, container: Container, now: float) -> bool:
        return container.record["run"] is None or bool(container.restart_at and now >= container.restart_at)

    def _start(self, container: Container) -> None:
        container.start()
        self._changed = True
        if container.exit_code is not None:
            self._after_exit(container)

    def _after_exit(self, container: Container) -> None:
        """Start it again if the policy says so."""
        policy, code = self._plan["restart_policy"], container.exit_code
        repeats = code != 0 if container.record["init"] else policy == "Always" or code != 0
        if repeats and policy != "Never" and not self._stopping:
            container.schedule_restart()

    def _is_complete(self) -> bool:
        """Whether no container will run any more."""
        if any(each.record["init"] and each.exit_code not in (0, None) for each in self._containers):
            return True
        return all(each.exit_code is not None for each in self._containers)

    def _stop(self, grace: float) -> None:
        self._stopping = self._changed = True
        for container in self._containers:
            container.terminate(grace)

    def _reap(self) -> None:
        """Take the ends of processes: of containers, of probes, and of orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for container in self._containers:
                was = container.pid
                if container.note_exit(pid, status):
                    if was == pid:
                        self._changed = True
                        self._after_exit(container)
                    break

    def _finish(self) -> None:
        """End what is left, and write down the result."""
        mine = os.getpid()

        def left() -> set[int]:
            below = descendants(mine) if has_children() else set()
            return (below | cgroup_processes(self._plan["cgroups"])) - {mine}

        kill_all(left, self._reap)
        self._reap()
        codes = [each.exit_code for each in self._containers]
        good = all(code == 0 for code in codes) and not self._record["reason"]
        self._record["phase"] = "Succeeded" if good else "Failed"
        self._record["finished"] = self._changed = True

    def _next_due(self) -> float:
        dues = [each.next_due() for each in self._containers]
        if self._plan["deadline"] and not self._stopping:
            dues.append(self._began + self._plan["deadline"])
        return min(dues, default=FOREVER)
