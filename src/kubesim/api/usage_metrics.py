"""NodeMetrics and PodMetrics: what running pods request, as if they used it.

The figures are computed from pods when they are asked for, and nothing is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubebase.quantity import Notation, Quantity, parse
from kubesim.api import status
from kubesim.api.client import InProcessClient
from kubesim.api.get_list import ListResult
from kubesim.api.requests import ObjectSelection, ReadOptions, Target
from kubesim.clock import stamp
from kubesim.registry.registry import Object, Resource
from kubesim.storage import Record

WINDOW: Final = "30s"
NOTATIONS: Final = {"cpu": Notation.DECIMAL_SI, "memory": Notation.BINARY_SI}

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class UsageReader:
    """Reads metrics in the way that ``ObjectReader`` reads stored objects."""

    def __init__(self, api: InProcessClient, now: float) -> None:
        self._api = api
        self._now = stamp(now)

    def get(self, target: Target, revision: int | None = None) -> Record:
        """The metrics of one node or pod."""
        record = self._api.reads.get(self._source(target), revision)
        found = next(self._metrics(target.resource, [record]), None)
        if found is None:
            raise status.not_found(target.resource.plural, target.resource.group, target.name)
        return found

    def list(self, target: Target, chosen: ObjectSelection, when: ReadOptions) -> ListResult:
        """The metrics of the nodes or pods that are chosen by their own labels and names."""
        listing = self._api.reads.list(self._source(target), chosen, when)
        return dataclasses.replace(listing, records=[*self._metrics(target.resource, listing.records)])

    def _source(self, target: Target) -> Target:
        source = self._api.registry.stored(target.resource.derived_from)
        assert source is not None  # nodes and pods are built in
        return dataclasses.replace(target, resource=source)

    def _metrics(self, resource: Resource, records: Iterable[Record]) -> Iterator[Record]:
        used = {} if resource.namespaced else usage_by_node(self._api.list("pods"))
        for record in records:
            source = _decode(record.value)
            metrics = pod_metrics(source) if resource.namespaced else node_metrics(source, used)
            if metrics is not None:
                yield Record(record.key, record.revision, _encode(self._object(resource, source, metrics)))

    def _object(self, resource: Resource, source: Object, metrics: Object) -> Object:
        about = source["metadata"]
        kept = {key: about[key] for key in ("name", "namespace", "labels") if key in about}
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {**kept, "creationTimestamp": self._now},
            "timestamp": self._now,
            "window": WINDOW,
            **metrics,
        }


def pod_metrics(pod: Object) -> Object | None:
    """What the containers of a pod use; None while it does not run."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return None
    return {
        "containers": [
            {"name": container["name"], "usage": _shown(_requests(container))}
            for container in pod["spec"]["containers"]
        ]
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
