"""The start times of a job's tasks, ascending: the tasks of one unit start, and end, several at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


def add_starts(starts: list[int], stamp: int, tasks: int) -> None:
    """Add the start of ``tasks`` tasks at that time, which usually is the latest."""
    if not starts or stamp >= starts[-1]:
        if tasks == 1:
            starts.append(stamp)
        else:
            starts += [stamp] * tasks
    else:
        at = bisect_right(starts, stamp)
        starts[at:at] = [stamp] * tasks


def remove_starts(starts: list[int], stamp: int, tasks: int) -> None:
    """Exactly undo ``add_starts``."""
    at = bisect_left(starts, stamp)
    del starts[at : at + tasks]
