"""A cluster cache that has seen one pod, ``ns/a`` of the group ``ns/g``."""

from __future__ import annotations

from typing import Any

import msgspec

from kubebase.resource_vector import Registry
from pumice.kube.resources import PODS
from pumice.kube.watch.change_queue import Change
from pumice.scheduler.cluster_cache import ClusterCache


def mirror_of(*, running: bool) -> ClusterCache:
    about = {"name": "a", "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    if running:
        spec["nodeName"] = "n1"
    pod = {"metadata": about, "spec": spec, "status": {"phase": "Running" if running else "Pending"}}
    mirror = ClusterCache(Registry())
    list(mirror.events_for(Change("pods", "ns/a", "u1", "1", None, PODS.decode(msgspec.json.encode(pod)))))
    return mirror
