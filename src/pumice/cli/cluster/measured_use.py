"""What the pods of a cluster really use, by its metrics API (``metrics.k8s.io``), as far as somebody measures it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kubebase.quantity import NANOS, QuantityError, parse

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document

GROUP_PATH = "/apis/metrics.k8s.io/v1beta1"
SIMULATED = "pumice.dev/simulated"
JOB_NAME = "volcano.sh/job-name"
SHORT_NAMES = {"cpu": "cpu", "memory": "memory", "nvidia.com/gpu": "gpu", "nvidia.com/gpu.memory": "gpu-memory"}
"""Resources that are shown, in this order, each with the name on the screen."""

Use = dict[str, int]
"""Amounts by resource, in nano units."""


def pod_metrics(client: Client, namespace: str) -> list[Document]:
    """The metrics of pods that were measured; none if the cluster has no such API, or the user may not read it."""
    from pumice.kube.client.api_errors import ApiError

    place = f"/namespaces/{namespace}" if namespace else ""
    try:
        found = client.list(f"{GROUP_PATH}{place}/pods").items
    except ApiError:
        return []
    return [each for each in found if SIMULATED not in (each["metadata"].get("annotations") or {})]


def use_by_pod(metrics: Iterable[Document]) -> dict[tuple[str, str], Use]:
    """What each pod uses, by namespace and name."""
    return {
        (str(each["metadata"].get("namespace") or ""), str(each["metadata"]["name"])): _sum(each) for each in metrics
    }


def use_by_job(metrics: Iterable[Document]) -> dict[tuple[str, str], Use]:
    """What the pods of each job use together, by namespace and name of the job."""
    found: dict[tuple[str, str], Use] = {}
    for each in metrics:
        about = each["metadata"]
        job = (about.get("labels") or {}).get(JOB_NAME)
        if job:
            add_use(found.setdefault((str(about.get("namespace") or ""), str(job)), {}), _sum(each))
    return found


def add_use(total: Use, more: Mapping[str, int]) -> None:
    """Add amounts to others."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def format_use(use: Mapping[str, int]) -> str:
    """Amounts for people: ``cpu=1.93,memory=120Mi``."""
    return ",".join(f"{SHORT_NAMES[name]}={short_use(name, use[name])}" for name in SHORT_NAMES if name in use)


def short_use(name: str, amount: int) -> str:
    """One amount: memory in whole Mi, others with two decimals."""
    if name == "memory" or name.endswith(".memory"):
        return f"{-(-amount // NANOS >> 20)}Mi"
    return f"{amount / NANOS:.2f}"


def _sum(metrics: Document) -> Use:
    total: Use = {}
    for container in metrics.get("containers") or ():
        for name, text in (container.get("usage") or {}).items():
            try:
                add_use(total, {name: parse(text).nano})
            except QuantityError:
                continue
    return total
