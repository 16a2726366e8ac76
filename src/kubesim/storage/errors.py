"""Errors of the storage."""

from __future__ import annotations


class RevisionConflict(Exception):  # noqa: N818 - a conflict is an answer, not a mistake
    """A write that expects another revision of the key than the newest."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(f"{key} is at revision {found}, not {expected} (0: it does not exist)")
        self.key = key
        self.expected = expected
        self.found = found


class Compacted(Exception):  # noqa: N818 - an answer, not a mistake
    """History that was asked for and is no longer kept."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} is gone: history begins at {compacted}")
        self.revision = revision
        self.compacted = compacted


class StorageFailed(Exception):  # noqa: N818 - the name says what happened
    """The file could not be written or read. A write that fails so was neither acknowledged nor visible."""


class DataDamaged(StorageFailed):
    """The file is not a log of this server, has a newer format, or cannot be read as it was written."""


class DataInUse(Exception):  # noqa: N818 - a state of the directory
    """Another process uses the data directory."""
