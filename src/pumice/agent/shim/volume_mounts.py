"""Mounts the volumes of a container for its process alone; as a user, only what that user may reach.

What a user names is opened as the user, and mounted as it was opened: by its descriptor. Descriptors are named in the
folder of them that was opened before the first mount, because a mount of the user may be over ``/proc``.
"""

from __future__ import annotations

import ctypes
import os
import stat

from pumice.agent.shim.process_identity import IdentityError, acting_as, open_source, open_target
from pumice.agent.shim.records import Identity, MountPlan

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_RELATIME, ST_RELATIME = 1 << 21, 4096
KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
"""Flags of a mount that have the same numbers for ``statvfs`` and ``mount``."""
DESCRIPTORS = "/proc/self/fd"

_libc = ctypes.CDLL(None, use_errno=True)


def may_mount() -> bool:
    """Whether this process may give a child mounts of its own."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(CLONE_NEWNS) == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0


def mount_volumes(mounts: list[MountPlan], identity: Identity | None) -> None:
    """Leave the mounts of the machine, and add these."""
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _checked(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount /")
    descriptors = os.open(DESCRIPTORS, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for mount in mounts:
        where = f"mount {mount['target']}"
        if identity is None:
            given, place = (os.open(mount[end], os.O_PATH | os.O_CLOEXEC) for end in ("source", "target"))
        else:
            given = open_source(mount, identity)
            place = open_target(mount, identity, folder=stat.S_ISDIR(os.fstat(given).st_mode))
        _mount_here(descriptors, given, place, MS_BIND | MS_REC, where)
        if mount["read_only"]:
            mounted = _open_again(mount["target"], given, identity)
            _mount_here(descriptors, None, mounted, MS_BIND | MS_REMOUNT | MS_RDONLY | _flags(mounted), where)
            os.close(mounted)
        os.close(given)
        os.close(place)
    os.close(descriptors)


def _mount_here(descriptors: int, given: int | None, place: int, flags: int, where: str) -> None:
    """Mount by descriptors. Nothing of a user is opened while their folder is the current one."""
    os.fchdir(descriptors)
    try:
        source = None if given is None else b"%d" % given
        _checked(_libc.mount(source, b"%d" % place, None, flags, None), where)
    finally:
        os.chdir("/")


def _open_again(target: str, given: int, identity: Identity | None) -> int:
    """What is at the mount point now, which must be what was mounted there."""
    if identity is None:
        return os.open(target, os.O_PATH | os.O_CLOEXEC)
    with acting_as(identity):
        found = os.open(target, os.O_PATH | os.O_CLOEXEC)
    if not os.path.samestat(os.fstat(found), os.fstat(given)):
        raise IdentityError(f"mountPath {target} was replaced while it was mounted")
    return found


def _flags(mounted: int) -> int:
    """What a mount forbids already, such as device files: a remount without these flags would allow it."""
    found = os.fstatvfs(mounted).f_flag
    return found & KEPT_FLAGS | (MS_RELATIME if found & ST_RELATIME else 0)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
