"""The first lists of informers that share a queue.

Informers wait while their queue is full. A consumer that takes nothing before all of them have synced would wait for
ever in a large cluster: the first lists fill the queue, and the other informers never get to report theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer


async def initial_changes(feed: ChangeQueue, informers: Iterable[Informer[Any]]) -> AsyncIterator[list[Change[Any]]]:
    """The changes as they arrive, until all informers have synced and their first lists were taken."""
    synced: asyncio.Future[Any] = asyncio.gather(*(informer.synced.wait() for informer in informers))
    try:
        while not synced.done():
            filled: asyncio.Future[Any] = asyncio.ensure_future(feed.wait_nonempty())
            await asyncio.wait({synced, filled}, return_when=asyncio.FIRST_COMPLETED)
            filled.cancel()
            yield feed.drain()
        yield feed.drain()  # whatever came while the consumer was busy
    finally:
        synced.cancel()
