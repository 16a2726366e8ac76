"""NodeMetrics and PodMetrics: what running pods use.

On simulated nodes that is what they request; such metrics have the annotation ``simulated`` (in the domain of the
product). Agents of other nodes measure it. The figures are computed when they are asked for, and nothing is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from kubebase.quantity import Notation, Quantity, parse
from kubesim.api import status
from kubesim.api.client import InProcessClient
from kubesim.api.get_list import ListResult, ObjectReader
from kubesim.api.requests import ObjectSelection, ReadOptions, Target
from kubesim.clock import stamp
from kubesim.registry.registry import Object, Resource
from kubesim.storage import Record

WINDOW: Final = "30s"
SIMULATED: Final = "simulated"
NOTATIONS: Final = {"cpu": Notation.DECIMAL_SI, "memory": Notation.BINARY_SI}

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class UsageReader:
    """Reads metrics in the way that ``ObjectReader`` reads stored objects."""

    def __init__(
        self,
        api: InProcessClient,
        reads: ObjectReader,
        now: float,
        measured: Mapping[str, Mapping[str, Any] | None] | None = None,
    ) -> None:
        """``reads``: shows the pods and nodes that the caller may see."""
        self._api = api
        self._reads = reads
        self._now = stamp(now)
        self._measured = measured or {}  # reports by node; None: its agent does not answer

    def get(self, target: Target, revision: int | None = None) -> Record:
        """The metrics of one node or pod."""
        record = self._reads.get(self._source(target), revision)
        found = next(self._metrics(target.resource, [record]), None)
        if found is None:
            raise status.not_found(target.resource.plural, target.resource.group, target.name)
        return found

    def list(self, target: Target, chosen: ObjectSelection, when: ReadOptions) -> ListResult:
        """The metrics of the nodes or pods that are chosen by their own labels and names."""
        listing = self._reads.list(self._source(target), chosen, when)
        return dataclasses.replace(listing, records=[*self._metrics(target.resource, listing.records)])

    def _source(self, target: Target) -> Target:
        source = self._api.registry.stored(target.resource.derived_from)
        assert source is not None  # nodes and pods are built in
        return target._replace(resource=source)

    def _metrics(self, resource: Resource, records: Iterable[Record]) -> Iterator[Record]:
        used = {} if resource.namespaced else usage_by_node(self._api.list("pods"))
        for record in records:
            source = _decode(record.value)
            node = (source["spec"].get("nodeName") or "") if resource.namespaced else source["metadata"]["name"]
            if node in self._measured:
                report = self._measured[node]
                metrics = measured_metrics(source, report, of_pod=resource.namespaced) if report else None
            else:
                metrics = self._requested(source) if resource.namespaced else node_metrics(source, used)
            if metrics is not None:
                yield Record(record.key, record.revision, _encode(self._object(resource, source, metrics)))

    def _requested(self, pod: Object) -> Object | None:
        annotations = {self._api.identity.annotation(SIMULATED): "true"}
        found = pod_metrics(pod)
        return None if found is None else {"metadata": {"annotations": annotations}, **found}

    def _object(self, resource: Resource, source: Object, metrics: Object) -> Object:
        about = source["metadata"]
        kept = {key: about[key] for key in ("name", "namespace", "labels") if key in about}
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {**kept, **metrics.pop("metadata", {}), "creationTimestamp": self._now},
            "timestamp": self._now,
            "window": WINDOW,
            **metrics,
        }


def measured_metrics(source: Object, report: Mapping[str, Any], *, of_pod: bool) -> Object | None:
    """What the agent of a node has measured; None if it knows nothing of the pod."""
    window = {"window": f"{max(1, round(report['window']))}s"}
    if not of_pod:
        return {"usage": _measured_usage(report["node"]), **window}
    containers = report["pods"].get(source["metadata"]["uid"])
    if not containers or (source.get("status") or {}).get("phase") != "Running":
        return None
    return {
        "containers": [{"name": name, "usage": _measured_usage(used)} for name, used in containers.items()],
        **window,
    }


def _measured_usage(used: Mapping[str, int]) -> dict[str, str]:
    """Nanocores, nano GPUs and bytes as quantities, as metrics-server writes them."""
    found = {}
    for name, amount in used.items():
        in_bytes = name == "memory" or name.endswith(".memory")
        found[name] = f"{-(-amount // 1024)}Ki" if in_bytes else f"{amount}n" if amount else "0"
    return found


def pod_metrics(pod: Object) -> Object | None:
    """What the containers of a pod use; None while it does not run."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return None
    return {
        "containers": [
            {"name": container["name"], "usage": _shown(_requests(container))}
            for container in pod["spec"]["containers"]
        ],
    }


def node_metrics(node: Object, used: dict[str, dict[str, int]]) -> Object:
    """What the pods of a node use, by ``usage_by_node``."""
    return {"usage": _shown(used.get(node["metadata"]["name"], {}))}


def usage_by_node(pods: Iterable[Object]) -> dict[str, dict[str, int]]:
    """What the running pods of each node use, in nano units."""
    used: dict[str, dict[str, int]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running":
            total = used.setdefault(pod["spec"].get("nodeName", ""), {})
            for container in pod["spec"]["containers"]:
                for name, nano in _requests(container).items():
                    total[name] = total.get(name, 0) + nano
    return used


def _requests(container: Object) -> dict[str, int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: parse(requests[name]).nano for name in NOTATIONS if name in requests}


def _shown(used: dict[str, int]) -> dict[str, str]:
    return {name: Quantity(used.get(name, 0), notation).format() for name, notation in NOTATIONS.items()}
