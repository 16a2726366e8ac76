"""The process from which shims are forked: it has loaded their code, so that a shim starts without an interpreter.

It reads folders of pods from a socket (its standard input, one message each) and answers each with ``+`` and the folder
once the shim has written itself down, or with ``-`` if it could not. It ends when the other end of the socket does;
the shims go on.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import traceback
from contextlib import suppress

from pumice.agent.shim.main import run_shim

STARTED, FAILED = b"+", b"-"
LONGEST_MESSAGE = 8192


class ForkServer:
    """Forks shims until nobody asks any more."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._heard, self._said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._folders: dict[int, bytes] = {}  # by pid, of shims that have not ended

    def run(self) -> None:
        """Serve until the other end is closed."""
        signal.set_wakeup_fd(self._said, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends with the agent, not before
            signal.signal(sign, signal.SIG_IGN)
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(self._heard, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()  # what is loaded now stays in pages that all shims share
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if self._heard in ready:
                self._reap()
            if self._channel.fileno() in ready:
                folder = self._channel.recv(LONGEST_MESSAGE)
                if not folder:
                    return
                self._fork(folder)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._heard, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            folder = self._folders.pop(pid, b"")
            if status and folder:  # if it had answered before, nobody waits for this one
                self._answer(FAILED, folder)

    def _fork(self, folder: bytes) -> None:
        try:
            pid = os.fork()
        except OSError:
            traceback.print_exc()
            self._answer(FAILED, folder)
            return
        if pid:
            self._folders[pid] = folder
            return
        status = 1
        try:
            self._leave()
            run_shim(os.fsdecode(folder), lambda: self._answer(STARTED, folder, last=True))
            status = 0
        except BaseException:  # the child must end here, whatever happens
            traceback.print_exc()
        finally:
            os._exit(status)

    def _leave(self) -> None:
        """Let go, in a child, of what is the server's alone."""
        signal.set_wakeup_fd(-1)
        for sign in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sign, signal.SIG_DFL)
        self._selector.close()
        os.close(self._heard)
        os.close(self._said)
        self._folders.clear()

    def _answer(self, word: bytes, folder: bytes, *, last: bool = False) -> None:
        with suppress(OSError):  # the agent was killed: the next one finds the shim by its folder
            self._channel.send(word + folder)
        if last:
            self._channel.close()


def main() -> None:
    """Serve the socket that is the standard input."""
    channel = socket.socket(fileno=os.dup(0))
    os.set_inheritable(channel.fileno(), False)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    ForkServer(channel).run()
