"""Child processes of tests: they can be interrupted, and none of them outlives its test.

Tests start every process through this module. It bounds each wait, so a child that does not react fails its test
instead of stopping the suite.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

SECONDS = 120.0
"""How long a command may run that ends by itself."""
GRACE = 20.0
"""How long a child may take to end after SIGTERM; then it is killed."""

_started: WeakSet[subprocess.Popen[Any]] = WeakSet()


def accept_interrupts() -> None:
    """Stop ignoring SIGINT in this process, so that its children do not ignore it either.

    A shell starts background jobs with SIGINT ignored, and a child inherits that. A handler is not inherited: a child
    of a process that handles SIGINT begins with the default action.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_process(
    command: Sequence[str | Path], *, timeout: float = SECONDS, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command that ends by itself, with the options of :func:`subprocess.run`; it is killed if it does not."""
    return subprocess.run(command, timeout=timeout, check=check, **options)


def in_child(action: Callable[[], bytes]) -> bytes:
    """What an action returns in a copy of this process, which ends with it, whatever it has become."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(said, "wb") as pipe:
                pipe.write(action())
        finally:
            os._exit(0)
    os.close(said)
    with os.fdopen(heard, "rb") as pipe:
        content = pipe.read()
    os.waitpid(pid, 0)
    return content


def start_process(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """Start a command, with the options of :class:`subprocess.Popen`. The caller ends it with :func:`end_process`."""
    process = subprocess.Popen(command, **options)
    _started.add(process)
    return process


@contextmanager
def started_process(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A command that runs for the time of a ``with`` block."""
    process = start_process(command, **options)
    try:
        yield process
    finally:
        end_process(process)


def end_process(process: subprocess.Popen[Any], grace: float = GRACE) -> int:
    """Terminate a child, kill it if it does not end in time, and close its pipes; returns its exit status."""
    try:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait(GRACE)
    finally:
        _started.discard(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def end_all_processes() -> None:
    """End every child that was started here and still runs."""
    for process in list(_started):
        end_process(process)


@contextmanager
def killed_after(process: subprocess.Popen[Any], seconds: float) -> Iterator[None]:
    """Kill the child if the ``with`` block takes longer, which ends every wait for its output."""
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
