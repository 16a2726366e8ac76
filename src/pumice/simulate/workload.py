"""A job of a workload: when it is submitted, what it asks for, and how long it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

SECOND = 1_000_000
"""Times are microseconds, as in the engine."""

Request = tuple[tuple[str, int], ...]
"""The request of a task in milli, by resource name, sorted, without zeros."""


@dataclass(slots=True)
class WorkloadJob:
    """One job. ``queue`` is a name or path as the file has it; all tasks are equal and run equally long.

    Nothing changes it. It is not frozen, because that takes three times as long to make, twice for each job of a trace.
    """

    id: str
    submit: int
    queue: str
    user: str
    tasks: int
    request: Request
    gang: int
    run_time: int
    priority: int
    line: int

    @property
    def name(self) -> str:
        """The name of its PodGroup. The line makes it unique: traces list a restarted job under the same id again."""
        return f"{self.id}.{self.line}"

    def at(self, submit: int, run_time: int) -> WorkloadJob:
        """The same job at other times."""
        if submit == self.submit and run_time == self.run_time:
            return self
        return replace(self, submit=submit, run_time=run_time)
