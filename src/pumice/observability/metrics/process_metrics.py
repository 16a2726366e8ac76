"""The metrics that every process of Pumice has: the state of its informers, and of the process itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.core import Metric

from pumice.observability.metrics.metric_families import counts, gauges

if TYPE_CHECKING:
    from pumice.kube.watch.informer import Informer


def of_informers(informers: Iterable[Informer[Any]]) -> Iterator[Metric]:
    """Whether the caches follow the cluster."""
    known = list(informers)
    yield counts(
        "pumice_informer_lists",
        "Number of LIST requests for a resource: the initial one, and one per lost watch position.",
        "resource",
        {informer.resource.name: float(informer.lists) for informer in known},
    )
    yield gauges(
        "pumice_informer_behind",
        "1 while the list or watch of a resource fails, so that its cache may be out of date.",
        "resource",
        {informer.resource.name: float(informer.last_error is not None) for informer in known},
    )


def of_process() -> Iterator[Metric]:
    """CPU, memory and file descriptors, the interpreter, its garbage collector."""
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        yield from collector.collect()
