"""Starts shims: from a bare interpreter, which loads neither installed packages nor settings of the environment.

The interpreter is started once and forked for each shim; it ends with the agent, the shims do not.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pumice.agent.shim.fork_server import LONGEST_MESSAGE, STARTED
from pumice.agent.shim.main import LOG

_SOURCE = Path(__file__).parents[2]
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from pumice.agent.shim.fork_server import main; main()"
_TITLE_ROOM = "." * 256
"""A word without meaning: shims write what they are over the command line of the server."""
END_SECONDS = 5.0
ATTEMPTS = 2
"""How often a start is tried: the server may have been killed while it was asked."""


class ShimStartError(Exception):
    """A shim did not come up."""


class ForkServerProcess:
    """A server that forks shims, as a process of its own."""

    def __init__(self) -> None:
        self.channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_SOURCE), _TITLE_ROOM],
                stdin=far.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def close(self) -> None:
        """Have it end; shims go on."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)


class ShimStarter:
    """Starts shims for an agent."""

    def __init__(self) -> None:
        self._server: ForkServerProcess | None = None
        self._waiting: dict[bytes, asyncio.Future[bool]] = {}

    def prepare(self) -> None:
        """Start the server if none runs."""
        if self._server is None:
            self._server = ForkServerProcess()
            self._server.channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._server.channel.fileno(), self._hear)

    async def start(self, folder: Path) -> None:
        """Start the shim of a pod's folder, unless there is or was one."""
        name = os.fsencode(folder)
        for _ in range(ATTEMPTS):
            self.prepare()
            server = self._server
            assert server is not None
            answer = self._waiting[name] = asyncio.get_running_loop().create_future()
            try:
                await asyncio.get_running_loop().sock_sendall(server.channel, name)
                if await answer:
                    return
                raise ShimStartError(f"the shim did not start: see {folder / LOG}")
            except OSError:  # the server has ended
                if self._server is server:  # another start may have replaced it already
                    self._drop()
            finally:
                self._waiting.pop(name, None)
        raise ShimStartError("the process that starts shims ends whenever it is asked")

    def close(self) -> None:
        """Have the server end; shims go on."""
        self._drop()

    def _hear(self) -> None:
        assert self._server is not None
        try:
            message = self._server.channel.recv(LONGEST_MESSAGE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            message = b""
        if not message:
            self._drop()
            return
        answer = self._waiting.get(message[1:])
        if answer is not None and not answer.done():
            answer.set_result(message[:1] == STARTED)

    def _drop(self) -> None:
        """Let go of a server that has ended, or is to end."""
        if self._server is None:
            return
        asyncio.get_running_loop().remove_reader(self._server.channel.fileno())
        self._server.close()
        self._server = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the process that starts shims has ended"))
