"""Blocked jobs: those that could start nothing since the last cycle ended, and why; their conditions say so.

Equal jobs that wait in one line are recorded as the line. Of a line that was blocked before, for the same reason, only
the jobs that came since have to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine


class BlockedJobs:
    """Jobs and lines of jobs, in the order in which they were blocked."""

    def __init__(self) -> None:
        self._reasons: dict[JobNode | WaitingLine, str] = {}
        self._batches: dict[JobNode | WaitingLine, int] = {}  # which of them one change of a unit blocked
        self._batch = 0  # 0: each by itself
        self._count = 0

    def __contains__(self, leaf: JobNode) -> bool:
        return leaf in self._reasons or (leaf.waiting_line is not None and leaf.waiting_line in self._reasons)

    def block(self, blocked: JobNode | WaitingLine, reason: str) -> None:
        """Record that a job, or all jobs of a line, can start nothing now."""
        if blocked not in self._reasons:
            self._batches[blocked] = self._batch
        self._reasons[blocked] = reason

    def reason(self, blocked: JobNode | WaitingLine) -> str | None:
        """Why a job, or all jobs of a line, can start nothing; None if they are not blocked."""
        return self._reasons.get(blocked)

    def discard(self, leaf: JobNode) -> None:
        """Forget a job."""
        self._reasons.pop(leaf, None)
        self._batches.pop(leaf, None)

    def begin_batch(self) -> int:
        """What is blocked from now on is blocked by one change: jobs of all lines are reported in order of arrival."""
        before = self._batch
        self._count += 1
        self._batch = self._count
        return before

    def end_batch(self, before: int) -> None:
        """End the batch; ``before`` is what ``begin_batch`` returned."""
        self._batch = before

    def take(self, note: Callable[[JobNode], str]) -> Iterator[tuple[JobNode, str]]:
        """Each job that may have to be told, with its condition, of which ``note`` is the end; empties the record."""
        found: list[tuple[JobNode, str]] = []
        batch, with_lines = -1, False
        for blocked, reason in self._reasons.items():
            if self._batches[blocked] != batch or not batch:
                yield from _by_arrival(found) if with_lines else found
                found, batch, with_lines = [], self._batches[blocked], False
            if isinstance(blocked, WaitingLine):
                found += _untold(blocked, reason, note)
                with_lines = True
            else:
                found.append((blocked, reason + note(blocked)))
        yield from _by_arrival(found) if with_lines else found
        self._reasons.clear()
        self._batches.clear()


def _untold(line: WaitingLine, reason: str, note: Callable[[JobNode], str]) -> list[tuple[JobNode, str]]:
    """The members of a line that do not have its condition yet; all of them from now on do."""
    first = line.first()
    if first is None or line.able:
        return []
    told = reason + note(first)
    found = list((line.untold if told == line.told else line.members).values())
    line.told = told
    line.untold.clear()
    return [(leaf, told) for leaf in found]


def _by_arrival(found: list[tuple[JobNode, str]]) -> list[tuple[JobNode, str]]:
    """In the order in which the jobs began to wait, whether by themselves or in lines."""
    return sorted(found, key=lambda entry: _arrival(entry[0]))


def _arrival(leaf: JobNode) -> tuple[int, int]:
    """When a job began to wait for its unit."""
    return max(leaf.arrival, leaf.waiting_line.arrival if leaf.waiting_line is not None else 0), leaf.arrival
