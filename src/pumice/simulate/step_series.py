"""A quantity over time as means of equal intervals, of which there are never more than ``POINTS``."""

from __future__ import annotations

POINTS = 480


class StepSeries:
    """The integral of a step function, by interval. The intervals double in length when time outgrows them."""

    __slots__ = ("sums", "width")

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.sums: list[int] = []

    def add(self, start: int, end: int, level: int) -> None:
        """The quantity had this level from start to end."""
        width, sums = self.width, self.sums
        index = start // width
        if index < len(sums) and end <= (index + 1) * width:  # mostly: events are closer together than intervals
            sums[index] += level * (end - start)
            return
        self.extend_to(end)
        width, sums = self.width, self.sums
        while start < end:
            index = start // width
            stop = min(end, (index + 1) * width)
            sums[index] += level * (stop - start)
            start = stop

    def extend_to(self, end: int) -> None:
        """Make room for the time up to end."""
        while end > self.width * POINTS:
            pairs = [self.sums[i : i + 2] for i in range(0, len(self.sums), 2)]
            self.sums = [sum(pair) for pair in pairs]
            self.width *= 2
        missing = -(-end // self.width) - len(self.sums)
        if missing > 0:
            self.sums += [0] * missing

    def means(self, end: int) -> list[float]:
        """The mean of each interval; the last one ends at ``end``."""
        self.extend_to(end)
        lengths = [min(self.width, end - index * self.width) for index in range(len(self.sums))]
        return [total / length if length > 0 else 0.0 for total, length in zip(self.sums, lengths, strict=True)]
