"""A timer queue: one due time per key, the earliest first."""

from __future__ import annotations

import heapq


class TimerQueue:
    """A heap of moments in which a key can be moved: an entry that its key has left is passed over."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._entry: dict[str, tuple[float, int]] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._entry)

    def set_timer(self, key: str, moment: float | None) -> None:
        """Make a key due at this moment instead of any other. None: not at all."""
        if moment is None:
            self._entry.pop(key, None)
            return
        known = self._entry.get(key)
        if known is None or known[0] != moment:
            self._number += 1
            self._entry[key] = (moment, self._number)
            heapq.heappush(self._heap, (moment, self._number, key))

    def next_due(self) -> float | None:
        """When the next key is due."""
        while self._heap:
            moment, number, key = self._heap[0]
            if self._entry.get(key) == (moment, number):
                return moment
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float, most: int) -> list[str]:
        """Remove and return keys that are due, at most ``most``, in order."""
        due: list[str] = []
        while len(due) < most:
            moment = self.next_due()
            if moment is None or moment > now:
                break
            key = heapq.heappop(self._heap)[2]
            del self._entry[key]
            due.append(key)
        return due
