"""Sets of completion indexes as an Indexed Job's status writes them: ``0,3-5,7``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def parse_indexes(text: str, below: int) -> set[int]:
    """The indexes that the text names, below the number of completions. What is no number is passed over."""
    return {index for index in _parse_ranges(text) if index < below}


def _parse_ranges(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            yield from range(int(first), int(last if dash else first) + 1)


def format_indexes(indexes: Iterable[int]) -> str:
    """The text of these indexes; three and more in a row become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_format_range(first, last) for first, last in runs)


def _format_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
