"""Counters and histograms of cycles: their durations, their decisions, and how long jobs and pods waited.

The current state (usage of queues, number of pending jobs) is not kept here but read at each scrape; see
``scheduler_metrics``. Metrics that begin with ``volcano_`` have the meaning, labels and units of Volcano's, so that
dashboards keep working.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics

from pumice.engine.actions import ACTIONS
from pumice.engine.decisions import Bind, Condition, Evict
from pumice.engine.events import Gone
from pumice.model.specs import JobSpec

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.scheduler.loop import Cycle

MILLISECONDS = (1, 2, *(5 * 2**k for k in range(15)))
"""The steps of Volcano's histograms, and two more: most cycles here end below its first."""
WAITS = tuple(32 * 2**k for k in range(16))
SECONDS = tuple(0.001 * 2**k for k in range(16))

disable_created_metrics()  # type: ignore[no-untyped-call]  # when each series began is of no use to anybody here


class CycleMetrics:
    """Measures the loop: each part of a cycle (``enter_phase``), and the whole cycle at its end (``observe_cycle``)."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._entered = self._inside = 0.0
        self._part = ""
        self.part_seconds: dict[str, float] = {}
        """Seconds spent in each part of the cycles; ``around``: in applying events and executing decisions."""
        self.events: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.victims = 0
        """Pods evicted in the last cycle with a preemption within a queue."""
        self.unschedulable = 0
        """Number of times that any job was reported as unschedulable."""
        self.unschedulable_by_job: dict[str, int] = {}
        """The same by job, until the job is deleted."""
        self.service_times: dict[str, tuple[int, int, int]] = {}
        """By job: the times of creation, first and last placement, in microseconds."""

        def histogram(name: str, text: str, steps: Iterable[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=tuple(steps), registry=self.registry)

        self._cycle = histogram(
            "pumice_cycle_seconds",
            "Duration of a scheduling cycle, from applying events to starting to execute the decisions.",
            SECONDS,
        )
        self._session = histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Duration of a scheduling cycle.", MILLISECONDS
        )
        self._preparation = histogram(
            "volcano_open_session_duration_milliseconds",
            "Duration of the preparation of a cycle: applying changes and solving targets, before the actions run.",
            MILLISECONDS,
        )
        self._actions = histogram(
            "volcano_action_scheduling_latency_milliseconds",
            "Duration of an action within a cycle.",
            MILLISECONDS,
            "action",
        )
        self._job_waits = histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "Time from the creation of a PodGroup (known to 1 s) to each time that tasks of it are placed.",
            WAITS,
        )
        self._task_waits = histogram(
            "volcano_task_scheduling_latency_milliseconds",
            "Time from the creation of a pod (known to 1 s) to the decision on its node.",
            MILLISECONDS,
        )

    def enter_phase(self, part: str) -> None:
        """The engine enters a part of its cycle, such as an action; an empty name ends the last part."""
        now = self._clock()
        took, before = now - self._entered, self._part
        if before:
            self.part_seconds[before] = self.part_seconds.get(before, 0.0) + took
            self._inside += took
        if before in ACTIONS:
            self._actions.labels(before).observe(took * 1000)
        elif before == "prepare":
            self._preparation.observe(took * 1000)
        self._entered, self._part = now, part

    def observe_cycle(self, cycle: Cycle) -> None:
        """A cycle has ended, and its decisions are being executed."""
        self._cycle.observe(cycle.seconds)
        self._session.observe(cycle.seconds * 1000)
        self.part_seconds["around"] = self.part_seconds.get("around", 0.0) + cycle.seconds - self._inside
        self._inside = 0.0
        for event in cycle.events:
            self.events[type(event).__name__] += 1
            if isinstance(event, Gone) and event.kind is JobSpec:
                self.unschedulable_by_job.pop(event.key, None)
                self.service_times.pop(event.key, None)
        victims = 0
        for decision in cycle.decisions:
            self.decisions[type(decision).__name__] += 1
            match decision:
                case Bind(task, _, job):
                    self._observe_placement(cycle.engine, task, job)
                case Evict(action="preempt"):
                    victims += 1
                case Condition(job, "Unschedulable"):
                    self.unschedulable += 1
                    self.unschedulable_by_job[job] = self.unschedulable_by_job.get(job, 0) + 1
        self.victims = victims or self.victims

    def _observe_placement(self, engine: Engine, task: str, job: str) -> None:
        now, state = engine.now, engine.state
        self._task_waits.observe(max(0, now - state.tasks[task].spec.created) / 1000)
        spec = state.jobs[job].spec
        if spec is not None:
            self._job_waits.observe(max(0, now - spec.created) / 1000)
            _, first, _ = self.service_times.get(job, (0, now, now))
            self.service_times[job] = spec.created, first, now
