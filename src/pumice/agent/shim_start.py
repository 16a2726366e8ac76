"""Starts shims: from a server that is forked for each and ends with the agent; the shims do not.

There are two servers. The compiled one (``agent/native``), where the installation has it, runs plain pods for a
fraction of the cpu time, and answers for all others that they are not plain. The one in Python runs every pod; it is a
bare interpreter, which loads neither installed packages nor settings of the environment.
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

NOT_PLAIN = b"?"
NATIVE = Path(__file__).with_name("native") / "pumice-shim"
"""The compiled server. ``tools/compile_shim.py`` makes it for wheels; a checkout has none."""

_SOURCE = Path(__file__).parents[2]
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from pumice.agent.shim.fork_server import main; main()"
_PYTHON = (sys.executable, "-I", "-S", "-c", _PROGRAM, str(_SOURCE))
_TITLE_ROOM = "." * 256
"""A word without meaning: shims write what they are over the command line of the server."""
END_SECONDS = 5.0
ATTEMPTS = 2
"""How often a start is tried: the server may have been killed while it was asked."""


def server_commands() -> list[tuple[str, ...]]:
    """The servers in the order in which they are asked."""
    return [(str(NATIVE),), _PYTHON] if os.access(NATIVE, os.X_OK) else [_PYTHON]


class ShimStartError(Exception):
    """A shim did not come up."""


class ForkServerProcess:
    """A server that forks shims, as a process of its own."""

    def __init__(self, command: tuple[str, ...] = _PYTHON) -> None:
        self.channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self.process = subprocess.Popen(
                [*command, _TITLE_ROOM],
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


class ForkServerClient:
    """Asks a server, which it starts when it is needed."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self.server: ForkServerProcess | None = None
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}

    def prepare(self) -> None:
        """Start the server if none runs."""
        if self.server is None:
            self.server = ForkServerProcess(self._command)
            self.server.channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self.server.channel.fileno(), self._hear)

    async def ask(self, folder: Path) -> bytes:
        """The answer about a pod's folder, of one letter."""
        name = os.fsencode(folder)
        for _ in range(ATTEMPTS):
            self.prepare()
            server = self.server
            assert server is not None
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting[name] = answer
            try:
                await asyncio.get_running_loop().sock_sendall(server.channel, name)
                return await answer
            except OSError:  # the server has ended
                if self.server is server:  # another start may have replaced it already
                    self.close()
            finally:
                self._waiting.pop(name, None)
        raise ShimStartError("the process that starts shims ends whenever it is asked")

    def close(self) -> None:
        """Let go of a server that has ended, or is to end."""
        if self.server is None:
            return
        asyncio.get_running_loop().remove_reader(self.server.channel.fileno())
        self.server.close()
        self.server = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the process that starts shims has ended"))

    def _hear(self) -> None:
        assert self.server is not None
        try:
            message = self.server.channel.recv(LONGEST_MESSAGE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            message = b""
        if not message:
            self.close()
            return
        answer = self._waiting.get(message[1:])
        if answer is not None and not answer.done():
            answer.set_result(message[:1])


class ShimStarter:
    """Starts shims for an agent."""

    def __init__(self) -> None:
        self.servers = [ForkServerClient(command) for command in server_commands()]

    def prepare(self) -> None:
        """Start the server that is asked first."""
        self.servers[0].prepare()

    async def start(self, folder: Path) -> None:
        """Start the shim of a pod's folder, unless there is or was one."""
        for server in self.servers:
            answer = await server.ask(folder)
            if answer == STARTED:
                return
            if answer != NOT_PLAIN:
                break
        raise ShimStartError(f"the shim did not start: see {folder / LOG}")

    def close(self) -> None:
        """Have the servers end; shims go on."""
        for server in self.servers:
            server.close()
