"""Records the history of queues: samples of the engine after cycles, written by a thread of its own.

A sample is taken between two cycles, when all numbers are consistent; the mean of the samples of a step is written when
the step is over. An I/O error stops only the history: it is reported once, and the next step is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import ROOT, JobPhase
from pumice.observability.history.reader import NoHistoryError, NothingRecordedError, read_history
from pumice.observability.history.store import CAPACITY, HistoryError, HistoryStore, Point, mean_point
from pumice.observability.history.tiers import RANGES, SECONDS

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.scheduler.loop import Cycle

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 2.5
"""Seconds between two samples: a sample is a walk over all queues and jobs."""
LARGEST = 64 << 20
"""Size of the file, in bytes, by default."""


class HistoryRecorder:
    """Hears about cycles, and writes a point for each queue and step."""

    def __init__(self, path: Path, *, largest: int = LARGEST) -> None:
        self.path = path
        self._largest = largest
        self._store: HistoryStore | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._samples: dict[str, list[Point]] = {}
        self._step = 0
        self._names: Sequence[str] = ()
        self._next = 0.0
        self._trouble = False
        self._closed = False

    def observe_cycle(self, cycle: Cycle) -> None:
        """Take a sample, if the last one is long enough ago; hand the step over if it has ended."""
        if cycle.started < self._next or self._closed:
            return
        self._next = cycle.started + SAMPLE_SECONDS
        step = int(cycle.started) // SECONDS.step * SECONDS.step
        if step != self._step:
            self._hand_over()
            self._step = step
        self._names = cycle.engine.state.registry.names
        for path, point in sample(cycle.engine).items():
            self._samples.setdefault(path, []).append(point)

    def answer(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """The answer to a request for the history: status code and JSON. Any thread may call it."""
        name = query.get("range") or "hour"
        if name not in RANGES:
            message = f"range: Unsupported value: {name!r}: supported values: {', '.join(RANGES)}"
            return 400, msgspec.json.encode({"error": message})
        try:
            found = read_history(self.path, query.get("queue") or ROOT, name, int(time.time()))
        except NothingRecordedError as error:
            return 404, msgspec.json.encode({"error": str(error)})
        except NoHistoryError as error:
            return 503, msgspec.json.encode({"error": str(error)})
        return 200, msgspec.json.encode(found)

    def close(self) -> None:
        """Write what there is, and close the file. Later cycles are not recorded."""
        if self._closed:
            return
        self._closed = True
        self._hand_over()
        self._thread.shutdown(wait=True)
        if self._store is not None:
            self._store.close()
            self._store = None

    def _hand_over(self) -> None:
        samples, self._samples = self._samples, {}
        if samples:
            self._thread.submit(self._write, self._step, self._names, samples)

    def _write(self, step: int, names: Sequence[str], samples: dict[str, list[Point]]) -> None:
        number = len(samples[CAPACITY])
        try:
            if self._store is None:
                self._store = HistoryStore(self.path, largest=self._largest)
            self._store.write(step, names, {path: mean_point(points, number) for path, points in samples.items()})
            self._trouble = False
        except Exception as error:  # the history must not stop the scheduler, whatever it is
            if not self._trouble:
                what = str(error) if isinstance(error, HistoryError) else f"{self.path}: {error}"
                log.error('Failed to write the history, scheduling continues without it: error="%s"', what)
            self._trouble = True


def sample(engine: Engine) -> dict[str, Point]:
    """The present values of all queues by path, and the capacity of the cluster."""
    width = len(engine.state.capacity)
    waiting: dict[ShareNode, list[int]] = {}
    counts: dict[ShareNode, list[int]] = {}
    for leaf in engine.tree.jobs.values():
        queue, job = leaf.queue, leaf.job
        number = counts.setdefault(queue, [0, 0, 0, 0])
        number[0] += job.phase is JobPhase.RUNNING
        number[1] += job.phase in (JobPhase.PENDING, JobPhase.INQUEUE)
        number[2] += job.running
        for shape, tasks in job.pending.items():
            number[3] += len(tasks)
            sums = waiting.setdefault(queue, [0] * width)
            for j, amount in shape.ask:
                sums[j] += amount * len(tasks)
    queues = [node for node in engine.tree.root.walk() if node.kind is NodeKind.QUEUE]
    for node in reversed(queues):  # children first
        if node.parent is not None:
            _add(waiting, node, node.parent)
            _add(counts, node, node.parent)
    targets = engine.order.has_targets
    found = {
        node.path: Point(
            list(node.held), list(node.entitled) if targets else None, waiting.get(node, ()), counts.get(node, ())
        )
        for node in queues
    }
    found[CAPACITY] = Point(list(engine.state.capacity))
    return found


def _add(sums: dict[ShareNode, list[int]], node: ShareNode, above: ShareNode) -> None:
    if node in sums:
        total = sums.setdefault(above, [0] * len(sums[node]))
        for j, amount in enumerate(sums[node]):
            total[j] += amount
