"""Commands that answer for the page in a process of their own: ``pumice why`` and the replay of a decision log.

Both need an engine with the whole cluster in memory. A process of its own gives that memory back when it is done, and
does not keep the viewers of other documents waiting. One runs at a time; answers are shared for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence

from pumice.ui.http_errors import UnavailableError

log = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds after which a command is given up."""
MOST_WAITING = 32
"""Commands that wait for their turn; more are refused."""
KEPT_ANSWERS = 32

Answer = tuple[int, bytes, str]
"""Exit status, standard output, and standard error of a command."""


class ChildCommands:
    """Runs commands of ``pumice``, one at a time, and shares their answers among viewers."""

    def __init__(self, fresh_seconds: float) -> None:
        self._fresh_seconds = fresh_seconds
        self._turn = asyncio.Lock()
        self._running: dict[tuple[str, ...], asyncio.Task[Answer]] = {}
        self._kept: OrderedDict[tuple[str, ...], tuple[float, Answer]] = OrderedDict()

    async def run(self, arguments: Sequence[str]) -> Answer:
        """The answer of a command: a fresh one of another viewer, or a new one. Raises ``UnavailableError``."""
        key = tuple(arguments)
        until, answer = self._kept.get(key, (0.0, None))
        if answer is not None and time.monotonic() < until:
            return answer
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= MOST_WAITING:
                raise UnavailableError("too many requests of this kind are waiting; try again later", reason="Busy")
            task = self._running[key] = asyncio.create_task(self._run(key))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)  # other viewers may wait for it too

    async def _run(self, key: tuple[str, ...]) -> Answer:
        async with self._turn:
            answer = await command_output(key)
        self._kept[key] = (time.monotonic() + self._fresh_seconds, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_ANSWERS:
            self._kept.popitem(last=False)
        return answer


async def command_output(arguments: Sequence[str]) -> Answer:
    """Run a command of ``pumice`` to its end. Raises ``UnavailableError`` if that takes too long."""
    program = [sys.executable, "-P", "-m", "pumice", *arguments]  # -P: no imports from the current directory
    process = await asyncio.create_subprocess_exec(
        *program,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            output, errors = await process.communicate()
    except TimeoutError:
        raise UnavailableError(f"no answer within {TIMEOUT:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await process.wait(), output, errors.decode(errors="replace").strip()
