"""The metrics of the process that serves the web page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric

from pumice.kube.watch.informer import Informer
from pumice.observability.metrics.metric_families import gauge
from pumice.observability.metrics.process_metrics import of_informers, of_process


def page_metrics(informers: Iterable[Informer[Any]], viewers: int) -> Iterator[Metric]:
    """The open pages, and how well the picture follows the cluster."""
    yield gauge("pumice_ui_viewers", "Open streams: pages that follow the cluster.", float(viewers))
    yield from of_informers(informers)
    yield from of_process()
