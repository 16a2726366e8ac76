"""The metrics of the scheduler: counters (``cycle_metrics``), and the current state, read from the engine when scraped.

A scrape costs a walk over queues and jobs; cycles cost nothing. Deleted objects are not in the engine and so have no
series: their number follows the cluster. Of jobs, which may be many, only the oldest unfinished ones have series of
their own; another metric counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

from kubebase.resource_vector import dominant_share
from pumice.engine.state.job import Job
from pumice.model.specs import JobPhase
from pumice.observability.metrics.cycle_metrics import CycleMetrics
from pumice.observability.metrics.metric_families import as_named, count, counts, gauge, gauges
from pumice.observability.metrics.process_metrics import of_informers, of_process
from pumice.observability.metrics.queue_metrics import of_namespaces, of_queues

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.scheduler.loop import Scheduler

JOBS_SHOWN = 2_000
"""Jobs that have series of their own, at most."""

Families = Iterator[Metric]


class SchedulerMetrics:
    """The metrics of a scheduler; ``collect`` is called between cycles."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._meter = CycleMetrics()
        scheduler.watchers.append(self._meter.observe_cycle)
        scheduler.on_step = self._meter.enter_phase

    def collect(self) -> list[Metric]:
        """All metrics."""
        engine = self._scheduler.engine
        found: list[Metric] = list(self._meter.registry.collect())
        found += self._loop(engine)
        found += self._writes()
        found += of_queues(engine)
        found += self._jobs(engine)
        found += of_namespaces(engine)
        found += of_process()
        return found

    # ---- the loop -----------------------------------------------------------------------------------------

    def _loop(self, engine: Engine) -> Families:
        meter = self._meter
        yield counts("pumice_cycle_part_seconds", "Time spent in each part of the cycles.", "part", meter.part_seconds)
        yield counts("pumice_events", "Events that the engine received, by kind.", "kind", meter.events)
        yield counts("pumice_decisions", "Decisions that the engine made, by kind.", "kind", meter.decisions)
        yield count(
            "pumice_solves", "Number of times that the targets were solved.", engine.context.changes.target_version
        )
        preemptors = (engine.context.reclaimers, engine.context.preemptors)
        yield counts(
            "volcano_eviction_transactions",
            "Number of preemptions by an action; each may evict several pods.",
            "action",
            {preemptor.action: preemptor.committed for preemptor in preemptors},
        )
        yield counts(
            "pumice_takings_without_gain",
            "Number of preemptions that brought no job closer to its integer target. Must stay 0.",
            "action",
            {preemptor.action: preemptor.without_gain for preemptor in preemptors},
        )
        yield gauge(
            "volcano_pod_preemption_victims",
            "Pods evicted by the last cycle with a preemption within a queue.",
            meter.victims,
        )
        yield as_named(
            "volcano_total_preemption_attempts",
            "Number of preemptions within a queue.",
            {(): engine.context.preemptors.committed},
        )
        scheduler = self._scheduler
        yield gauge(
            "pumice_configuration_refused",
            "1 while the latest configuration is rejected and the previous one stays in force.",
            float(bool(scheduler.configuration_error)),
        )
        if scheduler.decision_log is not None:
            broken = float(bool(scheduler.decision_log.trouble))
            yield gauge("pumice_decision_log_broken", "1 while the decision log cannot be written.", broken)
        yield from of_informers(scheduler.informers)
        yield gauge(
            "pumice_changes_waiting", "Watched changes that wait for the next cycle.", scheduler.changes_waiting
        )

    def _writes(self) -> Families:
        binder, cache = self._scheduler.binder, self._scheduler.cache
        yield counts(
            "volcano_schedule_attempts",
            "Scheduling attempts by result: pods bound, jobs reported as unschedulable, and failed bindings.",
            "result",
            {
                "scheduled": binder.bound,
                "unschedulable": self._meter.unschedulable,
                "error": binder.failed_binds,
            },
        )
        yield gauge("pumice_writes_in_flight", "Bindings and evictions in flight.", binder.in_flight)
        yield count("pumice_binds", "Pods bound.", binder.bound)
        yield count("pumice_binds_failed", "Bindings that the API server rejected.", binder.failed_binds)
        yield count("pumice_binds_retried", "Bindings of pods for which an earlier binding failed.", binder.retried)
        yield count("pumice_evictions", "Pods evicted.", binder.evicted)
        yield count(
            "pumice_evictions_failed",
            "Evictions that failed, for example because a PodDisruptionBudget forbids them.",
            binder.failed - binder.failed_binds,
        )
        yield gauge(
            "pumice_assumptions_open",
            "Decisions that the scheduler assumes and no watch event has confirmed yet.",
            cache.open_assumptions,
        )

    # ---- jobs ---------------------------------------------------------------------------------------------

    def _jobs(self, engine: Engine) -> Families:
        jobs = engine.state.jobs
        going_on = [job for job in jobs.values() if job.spec is not None and job.phase is not JobPhase.COMPLETED]
        waiting = {key: _pending(jobs[key]) for key in engine.context.decided.conditions if key in jobs}
        waiting = {key: tasks for key, tasks in waiting.items() if tasks}
        yield gauge("volcano_unschedule_job_count", "Number of unschedulable jobs.", len(waiting))
        yield gauge(
            "pumice_jobs_not_shown",
            "Number of jobs without series of their own, because there are too many jobs.",
            max(0, len(going_on) - JOBS_SHOWN),
        )
        shown = {job.key: job for job in islice(going_on, JOBS_SHOWN)}
        yield gauges(
            "volcano_unschedule_task_count",
            "Number of unschedulable tasks of a job.",
            "job_id",
            {key: waiting[key] for key in shown if key in waiting},
        )
        unschedulable = self._meter.unschedulable_by_job
        yield as_named(
            "volcano_job_retry_counts",
            "Number of times that a job was reported as unschedulable.",
            {(("job_id", key),): unschedulable[key] for key in shown if key in unschedulable},
        )
        yield from self._waits(shown)
        share = GaugeMetricFamily(
            "volcano_job_share", "Dominant share of the cluster that a job holds.", labels=("job_ns", "job_id")
        )
        for key, job in shown.items():
            namespace, _, name = key.partition("/")
            share.add_metric((namespace, name), dominant_share(job.held, engine.state.capacity))
        yield share

    def _waits(self, shown: Mapping[str, Job]) -> Families:
        labels = ("job_name", "queue", "job_namespace")
        took = GaugeMetricFamily(
            "volcano_e2e_job_scheduling_duration",
            "Milliseconds from the creation of a PodGroup to the last time tasks of it were placed.",
            labels=labels,
        )
        first = GaugeMetricFamily(
            "volcano_e2e_job_scheduling_start_time",
            "Unix time, in seconds, at which tasks of a PodGroup were first placed.",
            labels=labels,
        )
        last = GaugeMetricFamily(
            "volcano_e2e_job_scheduling_last_time",
            "Unix time, in seconds, at which tasks of a PodGroup were last placed.",
            labels=labels,
        )
        service_times = self._meter.service_times
        for key, job in shown.items():
            wait = service_times.get(key)
            if wait is None or job.spec is None:
                continue
            named = (job.spec.name, job.spec.queue, job.spec.namespace)
            took.add_metric(named, max(0, wait[2] - wait[0]) / 1000)
            first.add_metric(named, wait[1] // 1_000_000)
            last.add_metric(named, wait[2] // 1_000_000)
        yield from (took, first, last)


def _pending(job: Job) -> int:
    return sum(map(len, job.pending.values()))
