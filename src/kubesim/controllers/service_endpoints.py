"""Which pods are behind a Service, and how Endpoints and EndpointSlices list them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kubesim.controllers.jobs.job_pods import is_deleted, is_pod_finished, is_ready
from kubesim.kinds.service_addresses import HEADLESS
from kubesim.registry.registry import Object

SLICE_SIZE: Final = 100
"""The most endpoints in one EndpointSlice, as kube-controller-manager has it by default."""
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"

Ports = tuple[tuple[str, int, str, str], ...]
"""The ports of pods behind a Service: name, number, protocol and application protocol of each."""


@dataclass(slots=True)
class PodGroup:
    """The pods that have the same ports; a port that a Service names may be another one in each pod."""

    ports: Ports
    pods: list[Object] = field(default_factory=list)


def has_endpoints(service: Object) -> bool:
    """Whether the controller writes the endpoints of a Service; without a selector, its owner does."""
    return bool(service["spec"].get("selector")) and service["spec"]["type"] != "ExternalName"


def selects(service: Object, pod: Object) -> bool:
    """Whether a pod is behind a Service."""
    selector: dict[str, str] = service["spec"].get("selector") or {}
    return bool(selector) and selector.items() <= (pod["metadata"].get("labels") or {}).items()


def group_by_ports(service: Object, pods: Sequence[Object]) -> list[PodGroup]:
    """The pods of a Service that have an address, by their ports; in the order of their names."""
    groups: dict[Ports, PodGroup] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if is_pod_finished(pod) or not (pod.get("status") or {}).get("podIP"):
            continue
        ports = _ports_in(service, pod)
        if ports or not service["spec"].get("ports"):
            groups.setdefault(ports, PodGroup(ports)).pods.append(pod)
    return [groups[ports] for ports in sorted(groups)]


def _ports_in(service: Object, pod: Object) -> Ports:
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target_port(port, pod)
        if number is not None:
            found.append((port.get("name", ""), number, port["protocol"], port.get("appProtocol", "")))
    return tuple(found)


def _target_port(port: Object, pod: Object) -> int | None:
    """The number of a port in a pod; None if no container has a port of that name."""
    target = port["targetPort"]
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for offered in container.get("ports") or ():
            if offered.get("name") == target and offered["protocol"] == port["protocol"]:
                return int(offered["containerPort"])
    return None


def endpoints_labels(service: Object) -> dict[str, str]:
    """The labels of the Endpoints of a Service."""
    own = {"endpoints.kubernetes.io/managed-by": "endpoint-controller", **_headless_label(service)}
    return {**(service["metadata"].get("labels") or {}), **own}


def slice_labels(service: Object) -> dict[str, str]:
    """The labels of the EndpointSlices of a Service."""
    return {
        **(service["metadata"].get("labels") or {}),
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": service["metadata"]["name"],
        **_headless_label(service),
    }


def _headless_label(service: Object) -> dict[str, str]:
    return {HEADLESS_LABEL: ""} if service["spec"].get("clusterIP") == HEADLESS else {}


def endpoint_subsets(service: Object, groups: Sequence[PodGroup]) -> list[Object]:
    """The subsets of the Endpoints of a Service."""
    subsets = []
    for group in groups:
        staying = [pod for pod in group.pods if not is_deleted(pod)]
        ready = [pod for pod in staying if _is_published(service, pod)]
        parts = {
            "addresses": [_address(service, pod) for pod in ready],
            "notReadyAddresses": [_address(service, pod) for pod in staying if not _is_published(service, pod)],
            "ports": [_port(port, name_always=False) for port in group.ports],
        }
        if staying:
            subsets.append({name: part for name, part in parts.items() if part})
    return subsets


def slice_contents(service: Object, groups: Sequence[PodGroup]) -> list[Object]:
    """Ports and endpoints of each EndpointSlice of a Service; one without endpoints if it has no pods."""
    contents = []
    for group in groups:
        ports = [_port(port, name_always=True) for port in group.ports]
        endpoints = [_endpoint(service, pod) for pod in group.pods]
        contents += [
            {"ports": ports, "endpoints": endpoints[start : start + SLICE_SIZE]}
            for start in range(0, len(endpoints), SLICE_SIZE)
        ]
    return contents or [{"ports": [], "endpoints": []}]


def _is_published(service: Object, pod: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses")) or is_ready(pod)


def _port(port: tuple[str, int, str, str], *, name_always: bool) -> Object:
    name, number, protocol, application = port
    found: Object = {"port": number, "protocol": protocol}
    if name or name_always:
        found["name"] = name
    if application:
        found["appProtocol"] = application
    return found


def _address(service: Object, pod: Object) -> Object:
    return {"ip": pod["status"]["podIP"], **_place(service, pod)}


def _endpoint(service: Object, pod: Object) -> Object:
    leaving, serving = is_deleted(pod), is_ready(pod)
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not leaving)
    conditions = {"ready": ready, "serving": serving, "terminating": leaving}
    return {"addresses": [pod["status"]["podIP"]], "conditions": conditions, **_place(service, pod)}


def _place(service: Object, pod: Object) -> Object:
    about, spec = pod["metadata"], pod["spec"]
    found: Object = {
        "nodeName": spec.get("nodeName", ""),
        "targetRef": {"kind": "Pod", "namespace": about["namespace"], "name": about["name"], "uid": about["uid"]},
    }
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        found["hostname"] = spec["hostname"]
    return found
