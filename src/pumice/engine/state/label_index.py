"""Finding tasks by a label, without looking at all of them.

Only keys that somebody asks about are indexed: the first question about a key goes through all tasks once, from
then on the index follows.
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
        """A task came."""
        for key, by_value in self._by_key.items():
            value = task.spec.labels.get(key)
            if value is not None:
                by_value.setdefault(value, {})[task] = None

    def remove(self, task: Task) -> None:
        """A task goes."""
        for key, by_value in self._by_key.items():
            value = task.spec.labels.get(key)
            if value is not None:
                by_value[value].pop(task, None)
                if not by_value[value]:
                    del by_value[value]

    def having(self, key: str, value: str) -> Iterable[Task]:
        """The tasks with this label, in the order they came."""
        if key not in self._by_key:
            by_value = self._by_key[key] = {}
            for task in self._tasks.values():
                found = task.spec.labels.get(key)
                if found is not None:
                    by_value.setdefault(found, {})[task] = None
        return list(self._by_key[key].get(value, ()))
