"""The source tree of the release before this one, from the history of the checkout."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent.parent
IMAGE = "test.invalid/pumice:previous"
UNTAGGED = "65481e6"
"""Taken while there is no tag: the last commit that was tried on real nodes by hand."""


@dataclass(frozen=True)
class Source:
    """A release and where its files are."""

    revision: str
    folder: Path


def unpack(folder: Path) -> Source | str:
    """Unpack the newest tag before this commit, or why that cannot be done."""
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^")
    revision = tag.decode().strip() if tag else UNTAGGED
    archive = folder.with_suffix(".tar")
    content = _git("archive", revision)
    if not content:
        return f"this checkout has no history with {revision}, the previous release"
    archive.write_bytes(content)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return Source(revision, folder)


def _git(*arguments: str) -> bytes:
    done = run_process(["git", "-C", ROOT, *arguments], capture_output=True)
    return bytes(done.stdout) if done.returncode == 0 else b""
