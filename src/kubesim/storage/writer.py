"""The thread that commits.

It commits all writes that have arrived as one batch, reports the result, and continues with the writes that arrived
meanwhile: the slower the disk, the larger the batches, and no write waits for a batch to fill. Between batches it
compacts, one step at a time.

When a commit fails, the writes queued behind it fail too, because they were checked against a state that no longer
exists. The epoch separates them from later writes: the event loop starts a new epoch once it has taken back the failed
writes, and the thread drops all writes of the old epoch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from kubesim.storage.errors import StorageFailed
from kubesim.storage.log import Log
from kubesim.storage.log_entries import LogEntry
from kubesim.storage.results import Record


class Write:
    """A line on its way to the disk."""

    __slots__ = ("epoch", "future", "line")

    def __init__(self, line: LogEntry, epoch: int, future: asyncio.Future[Record]) -> None:
        self.line = line
        self.epoch = epoch
        self.future = future


class Compaction:
    """A wish to have the history up to a revision removed."""

    __slots__ = ("future", "revision")

    def __init__(self, revision: int, future: asyncio.Future[None]) -> None:
        self.revision = revision
        self.future = future


class Writer:
    """Commits writes in order of arrival.

    ``committed`` is called in the event loop with each batch that is on disk, ``failed`` with the error of one
    that is not, ``swept`` with the compactions that are done and the error that ended them, if any.
    """

    def __init__(
        self,
        log: Log,
        committed: Callable[[list[Write]], None],
        failed: Callable[[Exception], None],
        swept: Callable[[list[Compaction], Exception | None], None],
    ) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._committed = committed
        self._failed = failed
        self._swept = swept
        self._queue: SimpleQueue[Write | Compaction | None] = SimpleQueue()
        self.submit = self._queue.put
        """Queue a write or a compaction; None ends the thread."""
        self._refused = -1  # the newest epoch that failed
        self._compactions: list[Compaction] = []
        self._sweeping = True  # at the start: what the last run may have left behind
        self._thread = threading.Thread(target=self._run, name="storage-writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def stop(self) -> None:
        """Wait until everything queued is done, and end."""
        self.submit(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._take()
            if batch:
                self._commit(batch)
            if self._sweeping:
                self._sweep()
        if self._compactions:
            self._tell(self._swept, self._compactions, StorageFailed("the store was closed; the next start goes on"))

    def _take(self) -> tuple[list[Write], bool]:
        """All queued writes, and whether to continue. Waits for a write unless there is more to sweep."""
        batch: list[Write] = []
        try:
            item = self._queue.get(block=not self._sweeping)
            while item is not None:
                if isinstance(item, Compaction):
                    self._compactions.append(item)
                    self._sweeping = True
                elif item.epoch > self._refused:
                    batch.append(item)
                item = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _commit(self, batch: list[Write]) -> None:
        try:
            self._log.append([write.line for write in batch])
        except Exception as error:  # whatever it is, it is not on disk: a COMMIT that fails is rolled back
            self._refused = batch[-1].epoch
            self._tell(self._failed, error)
        else:
            self._tell(self._committed, batch)

    def _sweep(self) -> None:
        error: Exception | None = None
        try:
            if self._compactions:
                self._log.compact(max(compaction.revision for compaction in self._compactions))
            self._sweeping = self._log.sweep()
        except Exception as failure:  # it is tried again with the next compaction, or the next start
            self._sweeping = False
            error = failure
        if not self._sweeping and self._compactions:
            self._tell(self._swept, self._compactions, error)
            self._compactions = []

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:  # the loop is closed
            self._queue.put(None)
