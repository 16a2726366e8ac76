"""Processes that ``pumice up`` starts, restarts after they exit, and stops.

Standard input of each process is a pipe whose other end only ``pumice up`` holds. If ``pumice up`` ends, even by a
kill, the process reads the end of its input and stops (``daemons.daemon``). Its standard error is read line by line and
printed with the name of the process, so that lines of several processes do not mix.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

import click

from pumice.cli.daemons.daemon import HEALTHY, LOG_LEVEL_VARIABLE, STOP_TIMEOUT, SUPERVISED_VARIABLE
from pumice.kube.client.rate_limit import Backoff

BAD_INPUT = click.UsageError.exit_code
FIRST_RESTART_DELAY, LONGEST_RESTART_DELAY = 1.0, 30.0
"""Seconds (at most) until one that has ended is started again: after the first time, and after many."""
BACKOFF_RESET_SECONDS = 60.0
"""A process that has run this long did not fail at its start: the restart delay is reset."""
KILL_AFTER_SECONDS = STOP_TIMEOUT + 2.0
"""Seconds until a process that does not stop is killed."""
LONGEST_LINE = 1 << 20


class CannotStartError(Exception):
    """A process rejected its arguments; it has printed the reason."""


class SupervisedProcess:
    """One such process, over all its lives."""

    def __init__(self, name: str, arguments: Sequence[str], say: Callable[[str], None], *, verbose: bool) -> None:
        self.name = name
        self.state = "starting"
        """The state in the status line: ``ok``, or what the process is doing instead."""
        self._command = [sys.executable, "-P", "-m", "pumice", *arguments]  # -P: no imports from the current directory
        self._print_line = say
        self._environment = {
            **os.environ,
            SUPERVISED_VARIABLE: "1",
            **({LOG_LEVEL_VARIABLE: "info"} if verbose else {}),
        }
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._was_ready = False  # ever

    async def run(self) -> None:
        """Keep it at work until it is stopped. ``CannotStartError`` if it never will be."""
        pauses = Backoff(FIRST_RESTART_DELAY, LONGEST_RESTART_DELAY)
        while not self._stopping:
            began = time.monotonic()
            status = await self._run_once()
            if self._stopping:
                break
            if status == BAD_INPUT and not self._was_ready:
                raise CannotStartError(f"{self.name} could not start; its error is printed above")
            if time.monotonic() - began >= BACKOFF_RESET_SECONDS:
                pauses.reset()
            pause = pauses.next()
            self.state = "restarting"
            self._print_line(f"{self.name}: exited ({_exit_text(status)}); restarting in {pause:.0f} s")
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Let it finish what is under way, for a while."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(KILL_AFTER_SECONDS):
                await process.wait()
        except TimeoutError:
            self._print_line(f"{self.name}: did not stop in time; killed")
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._stopping = True
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def _run_once(self) -> int:
        """One life, to its end; how it ended."""
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=LONGEST_LINE,
            process_group=0,  # Ctrl-C reaches pumice up only, which then stops the processes in order
        )
        assert process.stdout and process.stderr
        if self._stopping:  # in the meantime
            process.kill()
        await asyncio.gather(self._follow_state(process.stdout), self._relay_log(process.stderr))
        return await process.wait()

    async def _follow_state(self, stream: asyncio.StreamReader) -> None:
        """Follow the health that the process reports."""
        async for line in stream:
            self.state = HEALTHY if line.strip() == HEALTHY.encode() else "not ready"
            self._was_ready = self._was_ready or self.state == HEALTHY

    async def _relay_log(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # far too long: what was read of it is lost
                continue
            if not line:
                return
            self._print_line(f"{self.name}: {line.decode(errors='replace').rstrip()}")


def _exit_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
