"""What scheduler, controllers and webhooks are asked: whether they are alive, whether they see, what they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pumice.observability.endpoints import Probes
from pumice.observability.liveness import behind
from pumice.observability.metrics.admission_metrics import AdmissionMetrics
from pumice.observability.metrics.job_metrics import JobMetrics
from pumice.observability.metrics.scheduler_metrics import Metrics
from pumice.scheduler.loop import STALLED

if TYPE_CHECKING:
    from pumice.admission.webhooks.server import Webhooks
    from pumice.kube.resources import Document
    from pumice.kube.watch.informer import Informer
    from pumice.scheduler.loop import Scheduler


def of_scheduler(scheduler: Scheduler) -> Probes:
    """What can be asked of a scheduler; it is measured from now on."""
    metrics = Metrics(scheduler)
    return Probes(
        alive=lambda: "" if scheduler.alive else f"stuck: no cycle has ended for more than {STALLED:.0f} s",
        ready=lambda: behind(scheduler.informers),
        metrics=metrics.collect,
    )


def of_controllers(informers: Callable[[], Iterable[Informer[Document]]], metrics: JobMetrics) -> Probes:
    """What can be asked of controllers that follow the cluster so."""
    return Probes(alive=lambda: "", ready=lambda: behind(informers()), metrics=metrics.collect)


def of_webhooks(webhooks: Webhooks) -> Probes:
    """What can be asked of webhooks. One that follows late still answers: better by what it knows than not at all."""
    return Probes(alive=lambda: "", ready=lambda: webhooks.trouble, metrics=AdmissionMetrics(webhooks).collect)
