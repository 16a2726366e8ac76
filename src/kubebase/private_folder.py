"""Folders for one user alone: keys, plans, logs, and sockets to which tokens are sent."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder that only this user may enter, or take one that is there. Raises ``OSError``.

    One that another user has made is refused, and so is a link of theirs: whoever owns a folder can open it again.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for owner in (folder.lstat().st_uid, folder.stat().st_uid):
        if owner != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another user; choose a folder of your own", str(folder))
    folder.chmod(0o700)
