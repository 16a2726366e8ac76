"""Exec probes: a command in the container, again and again, whose exit code says whether the container is well."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from pumice.agent.shim.process_start import StartError, start_process
from pumice.agent.shim.records import ContainerPlan, ProbePlan


class ExecProbe:
    """One probe of a running container. ``passed`` and ``failed`` say that its threshold is reached."""

    def __init__(self, plan: ProbePlan, container: ContainerPlan, started: float) -> None:
        self._plan = plan
        self._container = container
        self._successes = self._failures = 0
        self._next = started + plan["delay"]
        self._until = 0.0
        self.pid = 0
        """The process of the probe; 0: none now."""

    @property
    def passed(self) -> bool:
        """Whether enough runs in a row succeeded."""
        return self._successes >= self._plan["successes"]

    @property
    def failed(self) -> bool:
        """Whether enough runs in a row failed."""
        return self._failures >= self._plan["failures"]

    @property
    def due(self) -> float:
        """When it has to be looked at next."""
        return self._until if self.pid else self._next

    def run_due(self) -> None:
        """Start a run that is due, or end one that takes too long."""
        now = time.monotonic()
        if now < self.due:
            return
        if self.pid:
            self.kill()
            self._until = now + self._plan["timeout"]  # its end is on the way; the probe has failed then
            return
        self._next = now + self._plan["period"]
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.pid = start_process(self._container, self._plan["command"], nothing, nothing)
            self._until = now + self._plan["timeout"]
        except StartError:
            self.note_exit(1)
        finally:
            os.close(nothing)

    def note_exit(self, code: int) -> None:
        """The run has ended."""
        self.pid = 0
        self._successes = 0 if code else self._successes + 1
        self._failures = self._failures + 1 if code else 0

    def kill(self) -> None:
        """End the run that is under way."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
