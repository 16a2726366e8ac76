"""Whether a loop is alive, and whether it sees the cluster.

A loop that waits for its first lists, or for an API that does not answer, is alive: to start it anew would not help.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.kube.watch.informer import Informer

EVERY = 1.0
"""Seconds between two beats of a loop that does nothing else at fixed times."""
STUCK = 30.0
"""Seconds without a beat after which a loop is taken for stuck."""


class LoopHeartbeat:
    """When a loop was last seen to come round."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """It comes round."""
        self._last = self._clock()

    async def run(self) -> None:
        """Beat, as long as the loop comes round."""
        while True:
            self.beat()
            await asyncio.sleep(EVERY)

    def unhealthy_reason(self) -> str:
        """The reason why the process is unhealthy; empty if it is healthy."""
        silence = self._clock() - self._last
        return f"stuck: the event loop has not run for {silence:.0f} s" if silence > STUCK else ""


def unsynced_informers(informers: Iterable[Informer[Any]]) -> str:
    """Which resources are not known yet, or cannot be followed, and why; nothing if all is well."""
    wrong = []
    for informer in informers:
        if informer.last_error is not None:
            wrong.append(f"{informer.resource.name}: {informer.last_error}")
        elif not informer.synced.is_set():
            wrong.append(f"{informer.resource.name}: initial list not complete")
    return "\n".join(wrong)
