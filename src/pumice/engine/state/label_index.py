"""Index of tasks by label, to find them without a full scan.

Only keys that are queried are indexed: the first query for a key scans all tasks once; from then on the index is
maintained.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.engine.state.task import Task


class LabelIndex:
    """Tasks by the value of a label key."""

    def __init__(self, tasks: dict[str, Task]) -> None:
        self._tasks = tasks
        self._by_key: dict[str, dict[str, dict[Task, None]]] = {}

    def add(self, task: Task) -> None:
        """Add a task to the index."""
        for key, by_value in self._by_key.items():
            value = task.spec.labels.get(key)
            if value is not None:
                by_value.setdefault(value, {})[task] = None

    def remove(self, task: Task) -> None:
        """Remove a task from the index."""
        for key, by_value in self._by_key.items():
            value = task.spec.labels.get(key)
            if value is not None:
                by_value[value].pop(task, None)
                if not by_value[value]:
                    del by_value[value]

    def having(self, key: str, value: str) -> Iterable[Task]:
        """The tasks with this label, in the order of their arrival."""
        if key not in self._by_key:
            by_value = self._by_key[key] = {}
            for task in self._tasks.values():
                found = task.spec.labels.get(key)
                if found is not None:
                    by_value.setdefault(found, {})[task] = None
        return list(self._by_key[key].get(value, ()))
