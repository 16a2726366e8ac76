"""Where the figures of ``pumice top`` come from: lists of a cluster, as far as the user may read them.

Pods and podgroups are those of the requested namespace; else of all or, for a user with rights in one namespace, those
of the namespace of the context.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubebase.resource_vector import Registry
from pumice.cli.cluster.measured_use import use_by_pod
from pumice.cli.top.queue_usage import ClusterUsage, cluster_usage
from pumice.cli.top.workload_usage import PodRequests, workloads
from pumice.kube.resources import NODES, POD_GROUPS, PODS, QUEUES

if TYPE_CHECKING:
    from pumice.kube.resources import Resource

Document = dict[str, Any]
Objects = Callable[["Resource[Any]", str], list[Document] | None]
"""Lists a resource in a namespace, or in all; None if the user may not."""


ONE_NAMESPACE = "you may not list the pods of all namespaces; jobs, users and waiting pods are those of namespace {}"


class RecentMetrics:
    """Lists metrics again after a few seconds only: the screen is drawn several times a second."""

    def __init__(self, metrics: Callable[[str], list[Document]], seconds: float = 5.0) -> None:
        self._metrics = metrics
        self._seconds = seconds
        self._known: dict[str, tuple[float, list[Document]]] = {}

    def __call__(self, namespace: str) -> list[Document]:
        """The metrics of a namespace, or of all."""
        moment, found = self._known.get(namespace, (float("-inf"), []))
        if time.monotonic() - moment >= self._seconds:
            found = self._metrics(namespace)
            self._known[namespace] = (time.monotonic(), found)
        return found


class UsageSource:
    """Reads the usage again and again, and keeps the requests of pods between two readings."""

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        *,
        requested: bool = False,
        metrics: Callable[[str], list[Document]] = lambda namespace: [],
    ) -> None:
        """``metrics``: lists the measured metrics of pods in a namespace, or in all."""
        self._metrics = metrics
        self._objects = objects
        self._namespace = namespace
        self._requested = requested
        self._requests = PodRequests(Registry())

    def read(self) -> ClusterUsage:
        """The usage as it is now."""
        queues, nodes = self._objects(QUEUES, ""), self._objects(NODES, "")
        groups, pods = self._workload_objects(self._namespace if self._requested else "")
        one_namespace = not self._requested and (groups is None or pods is None)
        if one_namespace:
            groups, pods = self._workload_objects(self._namespace)
        scope = self._namespace if self._requested or one_namespace else ""
        found = None
        if groups is not None and pods is not None:
            found = workloads(groups, pods, self._requests, use_by_pod(self._metrics(scope)))
        usage = cluster_usage(queues, nodes, found, self._requests.registry)
        if one_namespace and found is not None:
            usage.notes.append(ONE_NAMESPACE.format(self._namespace))
        return usage

    def _workload_objects(self, namespace: str) -> tuple[list[Document] | None, list[Document] | None]:
        return self._objects(POD_GROUPS, namespace), self._objects(PODS, namespace)
