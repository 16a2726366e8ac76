"""Starts a process of a container: as its user, in its cgroups, its mounts, its folder and a session of its own.

The child reports the step that failed through a pipe that closes when the program is executed, so that the shim knows
at once whether it runs, and why not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket

from pumice.agent.shim.process_identity import become, give_pipe, take_groups
from pumice.agent.shim.records import ContainerPlan
from pumice.agent.shim.volume_mounts import mount_volumes

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""How the file for a copy of the output is opened; a pipe without a reader must not block the shim."""

_libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """A process could not be started."""


def become_subreaper() -> None:
    """Adopt orphans of all processes below this one, however they detach themselves."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def start_process(
    plan: ContainerPlan, command: list[str], output: int, errors: int, copy: socket.socket | None = None
) -> int:
    """Start a program as part of a container. Returns its pid; ``StartError`` if it does not run.

    ``copy``: where the child sends the descriptor of the plan's output file, which it opens with its own rights.
    """
    parent, (heard, said) = os.getpid(), os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        try:
            _become(plan, command, output, errors, parent, copy)
        except BaseException as error:  # the child must end here, whatever happens
            os.write(said, _trouble(error, command).encode())
        os._exit(127)
    os.close(said)
    with os.fdopen(heard, "rb") as report:
        trouble = report.read()
    if trouble:
        os.waitpid(pid, 0)
        raise StartError(trouble.decode(errors="replace"))
    return pid


def _become(
    plan: ContainerPlan, command: list[str], output: int, errors: int, parent: int, copy: socket.socket | None
) -> None:
    os.setsid()
    identity = plan.get("identity")
    for path in plan["joined"]:
        with open(path, "wb", buffering=0) as file:
            file.write(b"0")
    if plan["data_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, (plan["data_limit"], plan["data_limit"]))
    if identity is not None:
        take_groups(identity)
        give_pipe(output, identity)
        give_pipe(errors, identity)
    if plan["mounts"]:
        mount_volumes(plan["mounts"], identity)
    if identity is not None:
        become(identity)
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")  # a change of users would clear it
    if os.getppid() != parent:
        raise StartError("the shim has ended")
    os.chdir(plan["folder"])
    if copy is not None:
        socket.send_fds(copy, [b"+"], [os.open(plan.get("output", ""), OUTPUT_FLAGS, 0o666)])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for sign in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # also what the agent's parent ignored
        signal.signal(sign, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, plan["environment"])
    except FileNotFoundError:
        raise StartError("executable file not found in $PATH") from None
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise StartError("not a program; a script begins with a line such as #!/bin/sh") from None
        raise


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _trouble(error: BaseException, command: list[str]) -> str:
    return f'exec: "{command[0]}": {error}'
