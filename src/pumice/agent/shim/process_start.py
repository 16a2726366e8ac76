"""Starts a process of a container: as its user, in its cgroups, its mounts, its folder and a session of its own.

The child reports the step that failed through a pipe that closes when the program is executed, so that the shim knows
at once whether it runs, and why not.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import stat

from pumice.agent.shim.process_identity import become, give_pipe, open_source, open_target, take_groups
from pumice.agent.shim.records import ContainerPlan, Identity, MountPlan

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18

OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""How the file for a copy of the output is opened; a pipe without a reader must not block the shim."""

_libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """A process could not be started."""


def become_subreaper() -> None:
    """Adopt orphans of all processes below this one, however they detach themselves."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def may_mount() -> bool:
    """Whether this process may give a child mounts of its own."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(CLONE_NEWNS) == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0


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
        _mount(plan["mounts"], identity)
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


def _mount(mounts: list[MountPlan], identity: Identity | None) -> None:
    """Mount volumes for this process alone. What a user names is opened as the user, and mounted as it was opened."""
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _checked(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount /")
    for mount in mounts:
        source, target = mount["source"].encode(), mount["target"].encode()
        where = f"mount {mount['target']}"
        if identity is not None:
            given = open_source(mount, identity)
            place = open_target(mount, identity, folder=stat.S_ISDIR(os.fstat(given).st_mode))
            fixed = b"/proc/self/fd/%d"
            _checked(_libc.mount(fixed % given, fixed % place, None, MS_BIND | MS_REC, None), where)
            os.close(given)
            os.close(place)
            if mount["read_only"]:
                _checked(_libc.mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None), where)
            continue
        _checked(_libc.mount(source, target, None, MS_BIND | MS_REC, None), where)
        if mount["read_only"]:
            _checked(_libc.mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None), where)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _trouble(error: BaseException, command: list[str]) -> str:
    return f'exec: "{command[0]}": {error}'
