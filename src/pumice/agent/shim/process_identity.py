"""Becomes another user, in the child that is about to be a container's process; nothing of root is left.

Files that a user names (working directory, volumes, mount points) are opened as that user. Between the two the child
is the user by its effective ids only, so that it can mount; its real ids stay root's, so the user cannot reach it.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pumice.agent.shim.records import Identity, MountPlan

PR_SET_NO_NEW_PRIVS = 38
KEYCTL = {"x86_64": 250, "aarch64": 219, "ppc64le": 271, "riscv64": 219, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1
UMASK = 0o022
FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
HOST_CHECKS = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}

_libc = ctypes.CDLL(None, use_errno=True)


class IdentityError(Exception):
    """A process could not become its user, or its user may not do something."""


def take_groups(identity: Identity) -> None:
    """Take the groups of the user, while the process is still root, and give up what the agent was favoured with."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
    os.setgroups(identity["groups"])
    os.setresgid(identity["gid"], identity["gid"], identity["gid"])
    os.umask(UMASK)


def give_pipe(descriptor: int, identity: Identity) -> None:
    """Let the user open its own output anew (``/dev/stdout``); anything but a pipe is left alone."""
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.fchown(descriptor, identity["uid"], identity["gid"])


def become(identity: Identity) -> None:
    """Become the user for good. Programs that would give it more rights (setuid) do not any more."""
    uid, gid = identity["uid"], identity["gid"]
    os.setresuid(uid, uid, uid)
    keyctl = KEYCTL.get(os.uname().machine)
    if keyctl is not None:  # otherwise the keys of root's session would be readable; a kernel without keys has none
        _libc.syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise IdentityError("setuid programs cannot be disarmed: no_new_privs failed")
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or sorted(os.getgroups()) != identity["groups"]:
        raise IdentityError(f"the process could not become user {identity['name']}")


@contextmanager
def acting_as(identity: Identity) -> Iterator[None]:
    """Be the user as far as files are concerned."""
    os.seteuid(identity["uid"])
    try:
        yield
    finally:
        os.seteuid(0)


def open_source(mount: MountPlan, identity: Identity) -> int:
    """The folder or file to mount, as far as the user may reach it."""
    if not mount["own"]:
        with acting_as(identity):
            return _open_host_path(mount)
    found = os.open(mount["source"], FOLDER_FLAGS)  # in the pod's folder, which nobody but root may enter
    with acting_as(identity):
        for part in filter(None, mount["sub_path"].split("/")):
            inner = _open_below(found, part)
            os.close(found)
            found = inner
    return found


def open_target(mount: MountPlan, identity: Identity, *, folder: bool) -> int:
    """The mount point, made by the user if it is missing."""
    target = mount["target"]
    with acting_as(identity):
        try:
            return os.open(target, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            pass
        if folder:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return os.open(target, os.O_PATH | os.O_CLOEXEC)


def _open_host_path(mount: MountPlan) -> int:
    path, kind = mount["source"], mount["host_type"]
    if kind == "DirectoryOrCreate":
        os.makedirs(path, exist_ok=True)
    elif kind == "FileOrCreate":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    if mount["sub_path"]:
        path = f"{path}/{mount['sub_path']}"
        if not os.path.lexists(path):
            os.makedirs(path)
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if kind in HOST_CHECKS and not mount["sub_path"] and not HOST_CHECKS[kind](os.fstat(found).st_mode):
        raise IdentityError(f"hostPath {path} is not a {kind}")
    return found


def _open_below(folder: int, name: str) -> int:
    """A name in a volume that the user may have filled: no link leads out of it."""
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        os.mkdir(name, dir_fd=folder)
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        raise IdentityError(f"subPath: {name} is a symbolic link")
    return found
