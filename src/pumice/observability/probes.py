"""Probes of scheduler, controllers and webhooks: liveness, readiness and metrics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from pumice.controllers.default_queues import missing_queues
from pumice.observability.liveness import unsynced_informers
from pumice.observability.metrics.admission_metrics import AdmissionMetrics
from pumice.observability.metrics.job_metrics import JobMetrics
from pumice.observability.metrics.scheduler_metrics import SchedulerMetrics
from pumice.observability.process_probes import Probes
from pumice.scheduler.loop import STALLED

if TYPE_CHECKING:
    from pumice.admission.webhooks.server import Webhooks
    from pumice.kube.resources import Document
    from pumice.kube.watch.informer import Informer
    from pumice.observability.history.recorder import HistoryRecorder
    from pumice.scheduler.loop import Scheduler


def scheduler_probes(scheduler: Scheduler, history: HistoryRecorder | None = None) -> Probes:
    """The probes of a scheduler; its cycles are measured, and perhaps recorded, from now on."""
    if history is not None:
        scheduler.watchers.append(history.observe_cycle)
    metrics = SchedulerMetrics(scheduler)
    return Probes(
        alive=lambda: "" if scheduler.alive else f"stuck: no cycle has completed for more than {STALLED:.0f} s",
        ready=lambda: unsynced_informers(scheduler.informers),
        metrics=metrics.collect,
        history=history.answer if history is not None else None,
    )


def controller_probes(
    informers: Callable[[], Iterable[Informer[Document]]], metrics: JobMetrics, queues: Container[str]
) -> Probes:
    """The probes of controllers with these informers; they are ready once the queues of every cluster exist."""
    return Probes(
        alive=lambda: "",
        ready=lambda: unsynced_informers(informers()) or missing_queues(queues),
        metrics=metrics.collect,
    )


def webhook_probes(webhooks: Webhooks) -> Probes:
    """The probes of webhooks. Webhooks with an outdated cache still answer: that is better than no answer."""
    return Probes(alive=lambda: "", ready=lambda: webhooks.unhealthy_reason, metrics=AdmissionMetrics(webhooks).collect)
