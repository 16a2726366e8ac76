"""The metrics of the controllers: how jobs ended, and the state of the informers.

They observe the changes that the controllers receive. A job that had already ended when it was first seen does not
count: rates would jump at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from pumice.kube.resources import JOBS, Document
from pumice.kube.watch.change_queue import Change
from pumice.observability.metrics.metric_families import as_named
from pumice.observability.metrics.process_metrics import of_informers, of_process

if TYPE_CHECKING:
    from pumice.kube.watch.informer import Informer

ENDS = {"Completed": "volcano_job_completed_phase_count", "Failed": "volcano_job_failed_phase_count"}
"""The phases of jobs that are counted, with their names in metrics."""

Labels = tuple[tuple[str, str], ...]


class JobMetrics:
    """Counts jobs that end, as long as they are there."""

    def __init__(self, informers: Callable[[], Iterable[Informer[Document]]]) -> None:
        self._informers = informers
        self._ended: dict[str, dict[str, tuple[Labels, int]]] = {phase: {} for phase in ENDS}

    def on_change(self, change: Change[Document]) -> None:
        """Something has changed."""
        if change.resource != JOBS.name:
            return
        if change.new is None:
            for ended in self._ended.values():
                ended.pop(change.key, None)
            return
        phase = _phase(change.new)
        if phase in ENDS and change.old is not None and _phase(change.old) != phase:
            queue = change.new.get("spec", {}).get("queue") or "default"
            _, times = self._ended[phase].get(change.key, ((), 0))
            self._ended[phase][change.key] = (("job_name", change.key), ("queue_name", queue)), times + 1

    def collect(self) -> list[Metric]:
        """All metrics."""
        return list(self._all())

    def _all(self) -> Iterator[Metric]:
        for phase, name in ENDS.items():
            yield as_named(
                name, f"Number of times that a job entered the phase {phase}.", dict(self._ended[phase].values())
            )
        yield from of_informers(self._informers())
        yield from of_process()


def _phase(job: Document) -> str:
    phase = job.get("status", {}).get("state", {}).get("phase", "")
    return str(phase)
