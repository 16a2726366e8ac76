"""The metrics of the webhooks: admission reviews by result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric

from pumice.observability.metrics.metric_families import gauge
from pumice.observability.metrics.process_metrics import of_informers, of_process

if TYPE_CHECKING:
    from pumice.admission.webhooks.server import Webhooks


class AdmissionMetrics:
    """The metrics of webhooks."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def collect(self) -> list[Metric]:
        """All metrics."""
        return list(self._all())

    def _all(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "pumice_admission_answers",
            "Admission responses sent to the API server.",
            labels=("resource", "operation", "answer"),
        )
        for labels, times in self._webhooks.answers.items():
            answers.add_metric(labels, times)
        yield answers
        untrusted = float(bool(self._webhooks.ca_bundle.last_error))
        yield gauge(
            "pumice_certificate_trouble",
            "1 while the serving certificate or the CA bundle of the webhook configurations cannot be updated.",
            untrusted,
        )
        yield from of_informers(self._webhooks.view.informers)
        yield from of_process()
