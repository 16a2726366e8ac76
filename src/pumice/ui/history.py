"""Where the page reads the history of queues: the file of the scheduler, or the scheduler's endpoint."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec

from pumice.observability.history.reader import NoHistoryError, NothingRecordedError, empty_history, read_history
from pumice.ui.encoded import EncodedDocument
from pumice.ui.http_errors import UnavailableError
from pumice.ui.values import Document

FRESH_SECONDS = 5.0
KEPT = 64
ATTEMPTS = 4
"""Requests to the endpoint: of several replicas only the one that leads has the history of the present."""
NOTHING_RECORDED = 404
"""The answer of a scheduler that has written no point yet, also of a standby."""
TIMEOUT = aiohttp.ClientTimeout(total=10)


class HistorySource(Protocol):
    """Where the history is."""

    async def read(self, queue: str, name: str) -> Document:
        """The history of a queue in a range. Raises ``NoHistoryError``."""
        ...


class HistoryFile:
    """The file that a scheduler on the same machine writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, queue: str, name: str) -> Document:
        """The history of a queue in a range. Raises ``NoHistoryError``."""
        return await asyncio.to_thread(read_history, self._path, queue, name, int(time.time()))


class HistoryEndpoint:
    """The endpoint ``/history`` of a scheduler elsewhere."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def read(self, queue: str, name: str) -> Document:
        """The history of a queue in a range. Raises ``NoHistoryError``."""
        problem: NoHistoryError = NothingRecordedError(self._url)
        async with aiohttp.ClientSession(timeout=TIMEOUT, connector=aiohttp.TCPConnector(force_close=True)) as session:
            for _ in range(ATTEMPTS):
                try:
                    async with session.get(self._url, params={"queue": queue, "range": name}) as response:
                        body = await response.read()
                        if response.status == 200:
                            return msgspec.json.decode(body, type=dict[str, Any])
                        if response.status != NOTHING_RECORDED:
                            said = body[:200].decode(errors="replace").strip()
                            problem = NoHistoryError(f"{self._url}: {response.status}: {said}")
                except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
                    problem = NoHistoryError(f"{self._url}: {str(error) or type(error).__name__}")
        raise problem


def history_source(place: str) -> HistorySource:
    """The source that a text names: a URL, or a file."""
    if place.startswith(("http://", "https://")):
        return HistoryEndpoint(place)
    return HistoryFile(Path(place))


class QueueHistories:
    """Histories of queues, read at most once in a while for all viewers."""

    def __init__(self, source: HistorySource) -> None:
        self._source = source
        self._known: OrderedDict[tuple[str, str], tuple[float, EncodedDocument]] = OrderedDict()

    async def of(self, queue: str, name: str, epoch: str) -> EncodedDocument:
        """The history of a queue in a range. Raises ``UnavailableError``."""
        until, known = self._known.get((queue, name), (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        try:
            found = await self._source.read(queue, name)
        except NothingRecordedError:
            found = empty_history(queue, name, int(time.time()))
        except NoHistoryError as error:
            raise UnavailableError(f"no history: {error}") from None
        document = EncodedDocument({"epoch": epoch, "version": int(time.time()), **found})
        self._known[queue, name] = (time.monotonic() + FRESH_SECONDS, document)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return document
