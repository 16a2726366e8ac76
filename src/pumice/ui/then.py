"""The tree as it was: answers from the decision log, shared among viewers. The past does not change."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kubebase.timestamps import moment_of
from pumice.ui.child_process import ChildCommands
from pumice.ui.encoded import EncodedDocument
from pumice.ui.http_errors import RequestError, UnavailableError
from pumice.ui.log_index import LogIndex
from pumice.ui.values import SECOND, time_text

FRESH_SECONDS = 600.0


class PastTrees:
    """Trees from the decision log in a folder."""

    def __init__(self, folder: Path) -> None:
        self._index = LogIndex(folder)
        self._indexing = asyncio.Lock()
        self._commands = ChildCommands(FRESH_SECONDS)

    async def span(self, epoch: str) -> EncodedDocument:
        """The span of the log."""
        await self._refresh()
        return EncodedDocument({"epoch": epoch, "version": 1, **self._index.document()})

    async def at(self, text: str, epoch: str) -> EncodedDocument:
        """The tree at a time. Raises ``RequestError`` and ``UnavailableError``."""
        try:
            time = moment_of(text.replace(" ", "+"))  # a plus sign that was not percent-encoded
        except (ValueError, OverflowError):
            example = datetime(2026, 11, 16, 3, 0).isoformat()  # noqa: DTZ001  # only its text is used
            message = f"time: Invalid value: {text[:40]!r}: must be RFC 3339, such as {example}Z"
            raise RequestError(message) from None
        await self._refresh()
        span = self._index.span
        if span is None:
            raise UnavailableError("the decision log has no cycle yet")
        time = min(max(time, span[0]), max(span))
        arguments = ["replay", str(self._index.file_at(time)), "--at", str(time / SECOND), "--tree"]
        status, output, errors = await self._commands.run(arguments)
        try:
            document = msgspec.json.decode(output, type=dict[str, Any]) if status == 0 else None
        except msgspec.MsgspecError:
            document = None
        if document is None:
            raise UnavailableError(f"replay failed: {errors.splitlines()[-1] if errors else f'status {status}'}")
        before, after = self._index.neighbours(moment_of(document["time"]) if document["time"] else time)
        document["then"] |= {"before": time_text(before), "after": time_text(after)}
        return EncodedDocument({"epoch": epoch, "version": 1, **document})

    async def _refresh(self) -> None:
        async with self._indexing:
            await asyncio.to_thread(self._index.refresh)
