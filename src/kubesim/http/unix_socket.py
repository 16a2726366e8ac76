"""The Unix socket of the server: the kernel says which user is at the other end, so nobody needs a token there."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from kubebase.field_error import FieldError

FOLDER_MODE, SOCKET_MODE = 0o755, 0o666  # everybody may connect; what they may do is decided by who they are
LOCAL_MODE = 0o600
LONGEST_PATH = 100  # bytes; the kernel allows a few more


@contextlib.contextmanager
def bind_unix_socket(path: Path) -> Iterator[socket.socket]:
    """Bind the socket in a folder that nobody else can write. One that a killed server has left is replaced."""
    _prepare_folder(path.parent)
    with _bound(path, SOCKET_MODE) as made:
        yield made


def bind_local_socket(path: Path) -> contextlib.AbstractContextManager[socket.socket]:
    """Bind a socket for this user alone, in a folder that exists."""
    return _bound(path, LOCAL_MODE)


@contextlib.contextmanager
def _bound(path: Path, mode: int) -> Iterator[socket.socket]:
    _remove_stale(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        try:
            made.bind(os.fspath(path))
        except OSError as error:
            raise FieldError(f"--socket {path}", error.strerror or str(error)) from None
        os.chmod(path, mode)
        ours = os.lstat(path).st_ino
        try:
            yield made
        finally:
            with contextlib.suppress(OSError):
                if os.lstat(path).st_ino == ours:
                    os.unlink(path)


def _prepare_folder(folder: Path) -> None:
    """Make the folder; refuse one in which another user could put a socket of its own in place of ours."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True)
        folder.chmod(FOLDER_MODE)
    except FileExistsError:
        pass
    except OSError as error:
        raise FieldError(f"--socket: {folder}", error.strerror or str(error)) from None
    for each in (folder.resolve(), *folder.resolve().parents):
        found = os.stat(each)
        open_to_all = found.st_mode & 0o022 and not (each != folder.resolve() and found.st_mode & stat.S_ISVTX)
        if found.st_uid not in {0, os.geteuid()} or open_to_all:
            raise FieldError(f"--socket: {each}", "other users may write this folder; choose one that is root's alone")


def _remove_stale(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FieldError(f"--socket {path}", "exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            os.unlink(path)
        else:
            raise FieldError(f"--socket {path}", "another server listens there; stop it, or choose another path")
