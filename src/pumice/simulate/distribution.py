"""A distribution of whole numbers in little memory: count, sum and maximum exactly, quantiles within 1 %.

Numbers below 256 have a bin each. Larger ones share a bin with those that begin with the same eight binary digits, so a
bin is less than 1/128 wide, and the middle of it is off by less than 0.4 %. Integer arithmetic only: the same numbers
give the same bins on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

DIGITS = 8


class Distribution:
    """Numbers that were added, without their order."""

    __slots__ = ("bins", "count", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.most = 0
        self.bins: dict[int, int] = {}

    def add(self, number: int) -> None:
        """Add a number that is not negative."""
        self.count += 1
        self.total += number
        if number > self.most:
            self.most = number
        shift = number.bit_length() - DIGITS
        if shift > 0:
            number = number >> shift << shift
        bins = self.bins
        bins[number] = bins.get(number, 0) + 1

    def merge(self, others: Iterable[Distribution]) -> Distribution:
        """This distribution and others as one."""
        merged = Distribution()
        for one in (self, *others):
            merged.count += one.count
            merged.total += one.total
            merged.most = max(merged.most, one.most)
            for bin_start, count in one.bins.items():
                merged.bins[bin_start] = merged.bins.get(bin_start, 0) + count
        return merged

    @property
    def mean(self) -> float | None:
        """The mean; None if there are no numbers."""
        return self.total / self.count if self.count else None

    def quantile(self, part: float) -> float | None:
        """The number below or at which this part of the numbers lies; None if there are none."""
        if not self.count:
            return None
        wanted, seen = part * self.count, 0
        for middle, count in self.steps():
            seen += count
            if seen >= wanted:
                return middle
        return float(self.most)

    def steps(self) -> Iterator[tuple[float, int]]:
        """The middle of each bin and the count in it, ascending."""
        for bin_start in sorted(self.bins):
            width = 1 << max(0, bin_start.bit_length() - DIGITS)
            yield min(bin_start + (width - 1) / 2, float(self.most)), self.bins[bin_start]
