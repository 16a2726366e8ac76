"""Folders for one user alone: nobody else has made them, or put a link in their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubebase.private_folder import make_private

NOBODY = 65534


def test_a_folder_of_ones_own_is_closed_to_others(tmp_path: Path) -> None:
    for name in ("new/inner", "there"):
        folder = tmp_path / name
        if name == "there":
            folder.mkdir(mode=0o777)
        make_private(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "there")
    make_private(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_another_user_has_made_is_refused(tmp_path: Path) -> None:
    """Root could close such a folder, and its owner could open it again; a link could lead to any folder of root."""
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir(mode=0o777)
    os.chown(theirs, NOBODY, NOBODY)
    mine.mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(mine)
    os.lchown(link, NOBODY, NOBODY)
    for folder in (theirs, link):
        with pytest.raises(PermissionError, match="belongs to another user"):
            make_private(folder)
    assert mine.stat().st_mode & 0o777 == 0o755
