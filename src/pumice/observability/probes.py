"""What scheduler, controllers and webhooks are asked: whether they are alive, whether they see, what they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pumice.observability.endpoints import Probes
from pumice.observability.liveness import unsynced_informers
from pumice.observability.metrics.admission_metrics import AdmissionMetrics
from pumice.observability.metrics.job_metrics import JobMetrics
from pumice.observability.metrics.scheduler_metrics import SchedulerMetrics
from pumice.scheduler.loop import STALLED

if TYPE_CHECKING:
    from pumice.admission.webhooks.server import Webhooks
    from pumice.kube.resources import Document
    from pumice.kube.watch.informer import Informer
    from pumice.scheduler.loop import Scheduler


def scheduler_probes(scheduler: Scheduler) -> Probes:
    """What can be asked of a scheduler; it is measured from now on."""
    metrics = SchedulerMetrics(scheduler)
    return Probes(
        alive=lambda: "" if scheduler.alive else f"stuck: no cycle has completed for more than {STALLED:.0f} s",
        ready=lambda: unsynced_informers(scheduler.informers),
        metrics=metrics.collect,
    )


def controller_probes(informers: Callable[[], Iterable[Informer[Document]]], metrics: JobMetrics) -> Probes:
    """What can be asked of controllers that follow the cluster so."""
    return Probes(alive=lambda: "", ready=lambda: unsynced_informers(informers()), metrics=metrics.collect)


def webhook_probes(webhooks: Webhooks) -> Probes:
    """What can be asked of webhooks. One that follows late still answers: better by what it knows than not at all."""
    return Probes(alive=lambda: "", ready=lambda: webhooks.unhealthy_reason, metrics=AdmissionMetrics(webhooks).collect)
