"""How many events there were in each of equal intervals, of which there are never more than ``POINTS``."""

from __future__ import annotations

POINTS = 480


class EventCounts:
    """Counts by interval. The intervals double in length when time outgrows them."""

    __slots__ = ("counts", "width")

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.counts: list[int] = []

    def add(self, now: int) -> None:
        """There was an event."""
        self.extend_to(now + 1)
        self.counts[now // self.width] += 1

    def extend_to(self, end: int) -> None:
        """Make room for the time up to end."""
        while end > self.width * POINTS:
            pairs = [self.counts[i : i + 2] for i in range(0, len(self.counts), 2)]
            self.counts = [sum(pair) for pair in pairs]
            self.width *= 2
        missing = -(-end // self.width) - len(self.counts)
        if missing > 0:
            self.counts += [0] * missing
