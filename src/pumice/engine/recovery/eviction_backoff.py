"""Backoff for tasks whose eviction failed: half a minute at first, then twice as long each time."""

from __future__ import annotations

from collections.abc import Container, Mapping

FIRST_DELAY = 30_000_000
"""How long a task is not evicted again after its eviction failed for the first time (microseconds)."""
LONGEST_DELAY = FIRST_DELAY * 32


class EvictionBackoff:
    """When each task whose eviction failed may be evicted again."""

    __slots__ = ("_failed",)

    def __init__(self) -> None:
        self._failed: dict[str, tuple[int, int]] = {}  #: attempts and end of the delay, by task

    def failed(self, task: str, now: int) -> None:
        """Record that the API rejected an eviction."""
        attempts = self._failed.get(task, (0, 0))[0] + 1
        self._failed[task] = attempts, now + min(FIRST_DELAY << (attempts - 1), LONGEST_DELAY)

    def retry_at(self, task: str) -> int:
        """When a task may be evicted again; 0: at any time."""
        return self._failed.get(task, (0, 0))[1]

    def forget_gone(self, tasks: Container[str], count: int) -> None:
        """Drop tasks that no longer exist, once there are more entries than tasks."""
        if len(self._failed) > count:
            self._failed = {task: entry for task, entry in self._failed.items() if task in tasks}

    def checkpoint(self) -> dict[str, tuple[int, int]]:
        """The entries, for the engine that replaces this one."""
        return dict(self._failed)

    def restore(self, entries: Mapping[str, tuple[int, int]]) -> None:
        """Continue with the entries of another engine."""
        self._failed = dict(entries)
